use super::*;
use crate::export::fake::Fake;
use kit::sys::errno::get as errno;
use std::ptr::null_mut;

#[test]
fn an_array_ends_with_null_and_is_empty_when_freed() {
    let list = array(Vec::new()).unwrap();
    // SAFETY: an array of one slot.
    unsafe {
        assert!((*list).is_null());
        free_device_list(list);
        free_device_list(null_mut());
    }
}

#[test]
fn null_devices() {
    // SAFETY: NULL is allowed.
    unsafe {
        assert!(get_device_name(null_mut()).is_null());
        assert_eq!(errno(), Errno::INVAL);
        assert_eq!(get_device_guid(null_mut()).get(), 0);
        assert_eq!(get_device_index(null_mut()), -1);
    }
}

#[test]
fn files_into_buffers() {
    let mut buf = [b'#'; 8];
    let at = buf.as_mut_ptr().cast();
    // SAFETY: strings and a buffer of that size.
    unsafe {
        let read = |dir: &CStr, file: &CStr, buf, size| {
            read_sysfs_file(dir.as_ptr(), file.as_ptr(), buf, size)
        };
        assert_eq!(read(c"/nowhere", c"f", at, 8), -1);
        assert_eq!(errno(), Errno::NOENT);
        assert_eq!(read(c"/proc/self", c"comm", null_mut(), 8), -1);
        assert_eq!(errno(), Errno(libc::EFAULT));
        assert_eq!(read(c"/proc/sys/kernel", c"ostype", at, 8), 5);
        assert_eq!(read(c"/proc/sys/kernel", c"ostype", null_mut(), 0), 0);
        assert_eq!(read_sysfs_file(null_mut(), c"f".as_ptr(), at, 8), -1);
        assert_eq!(errno(), Errno::INVAL);
    }
    assert_eq!(&buf[..6], b"Linux\0");
}

#[test]
fn a_full_buffer_leaves_errno_alone() {
    let mut buf = [b'#'; 5];
    set_errno(Errno(libc::EXDEV));
    // SAFETY: strings and a buffer of that size.
    let length = unsafe {
        read_sysfs_file(
            c"/proc/sys/kernel".as_ptr(),
            c"ostype".as_ptr(),
            buf.as_mut_ptr().cast(),
            5,
        )
    };
    assert_eq!((length, errno()), (-1, Errno(libc::EXDEV)));
}

#[test]
fn a_table_is_registered_once() {
    use crate::load::drivers;
    let driver = Fake::default().driver();
    drivers::register(driver, 34);
    drivers::register(driver, 34);
    let times = drivers::registered()
        .iter()
        .filter(|d| **d == driver)
        .count();
    assert_eq!(times, 1);
}
