//! Buffers of a program: `struct iovec[]`.

use kit::errno::{Errno, Result};

/// Largest number of buffers (`IOV_MAX`).
const MOST: usize = 1024;

/// Buffers that a program passed to the running call.
pub struct Buffers {
    vectors: *const libc::iovec,
    count: usize,
    total: usize,
}

impl Buffers {
    /// # Errors
    /// EINVAL for more than 1024, and for more bytes than `ssize_t` has.
    ///
    /// # Safety
    /// The pointer is that of so many vectors, whose memory belongs to the program until this is
    /// dropped.
    pub unsafe fn new(vectors: *const libc::iovec, count: usize) -> Result<Self> {
        if count > MOST || (vectors.is_null() && count > 0) {
            return Err(Errno::INVAL);
        }
        let mut total: usize = 0;
        for n in 0..count {
            // SAFETY: vouched for by the caller.
            let length = unsafe { (*vectors.add(n)).iov_len };
            total = total.checked_add(length).ok_or(Errno::INVAL)?;
        }
        if isize::try_from(total).is_err() {
            return Err(Errno::INVAL);
        }
        Ok(Self {
            vectors,
            count,
            total,
        })
    }

    /// Total length in bytes.
    pub fn total(&self) -> usize {
        self.total
    }

    /// The memory of `length` bytes from position `at`, in parts; fewer bytes at the end of the
    /// buffers.
    pub fn parts(&self, at: usize, length: usize) -> impl Iterator<Item = (*mut u8, usize)> {
        let (mut skip, mut left) = (at, length);
        (0..self.count).filter_map(move |n| {
            // SAFETY: `new` was promised so many vectors.
            let vector = unsafe { self.vectors.add(n).read() };
            let skipped = skip.min(vector.iov_len);
            skip -= skipped;
            let length = left.min(vector.iov_len - skipped);
            left -= length;
            // SAFETY: within the buffer.
            (length > 0).then(|| (unsafe { vector.iov_base.cast::<u8>().add(skipped) }, length))
        })
    }

    /// Copies bytes out, from position `at`.
    pub fn read(&self, at: usize, to: &mut [u8]) {
        let mut done = 0;
        for (from, length) in self.parts(at, to.len()) {
            // SAFETY: the parts are no longer than the slice, which belongs to the library.
            unsafe { to.as_mut_ptr().add(done).copy_from(from, length) };
            done += length;
        }
    }

    /// Copies bytes in, from position `at`, as far as there is room.
    pub fn write(&self, at: usize, from: &[u8]) {
        let mut done = 0;
        for (to, length) in self.parts(at, from.len()) {
            // SAFETY: as above.
            unsafe { to.copy_from(from.as_ptr().add(done), length) };
            done += length;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_run_across_buffers() {
        let (mut first, mut second) = ([1_u8, 2, 3], [4_u8, 5]);
        let vector = |bytes: &mut [u8]| libc::iovec {
            iov_base: bytes.as_mut_ptr().cast(),
            iov_len: bytes.len(),
        };
        let vectors = [vector(&mut first), vector(&mut []), vector(&mut second)];
        // SAFETY: the vectors are those of the arrays above.
        let buffers = unsafe { Buffers::new(vectors.as_ptr(), 3) }.unwrap();
        assert_eq!(buffers.total(), 5);
        let mut read = [0; 3];
        buffers.read(1, &mut read);
        assert_eq!(read, [2, 3, 4]);
        buffers.write(2, &[9, 8, 7, 6]);
        assert_eq!((first, second), ([1, 2, 9], [8, 7]));
    }

    #[test]
    fn too_many_bytes_or_buffers_are_refused() {
        let vector = libc::iovec {
            iov_base: core::ptr::null_mut(),
            iov_len: usize::MAX,
        };
        // SAFETY: the buffers are not accessed.
        unsafe {
            assert!(Buffers::new(&raw const vector, 1).is_err());
            assert!(Buffers::new(core::ptr::null(), 1).is_err());
            assert!(Buffers::new(core::ptr::null(), 0).is_ok());
        }
    }
}
