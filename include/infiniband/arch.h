/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Obsolete: 64-bit byte order under its old names. Use endian(3) instead. */
#ifndef INFINIBAND_ARCH_H
#define INFINIBAND_ARCH_H

#include <endian.h>
#include <stdint.h>

/* A platform that brings its own ntohll keeps both of its names. */
#ifndef ntohll
#undef htonll

/* htobe64() does not exist in strict ISO C, the builtin does. */
__attribute__((deprecated)) static inline uint64_t htonll(uint64_t x)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	return __builtin_bswap64(x);
#else
	return x;
#endif
}

__attribute__((deprecated)) static inline uint64_t ntohll(uint64_t x)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	return __builtin_bswap64(x);
#else
	return x;
#endif
}

#define htonll htonll
#define ntohll ntohll
#endif

#endif /* INFINIBAND_ARCH_H */
