/*
 * Common parts of the library's C files: symbol versions of functions, and the functions in Rust.
 */
#ifndef C_H
#define C_H

#define RUST __attribute__((visibility("hidden")))
#define FORMAT(fmt, first) __attribute__((format(printf, fmt, first)))

/* SYMVER(function, name, "@@", "NODE"): exports `function` as name@@NODE. */
#define SYMVER(function, name, at, node) __asm__(".symver " #function ", " #name at node)
/* Exports a function under every private node. The nodes besides the default need separate symbols.
 * */
#define ALIAS(function, name, node) \
	extern __typeof__(function) function##_##node __attribute__((alias(#function))); \
	SYMVER(function##_##node, name, "@", "IBVERBS_PRIVATE_" #node)
#define PRIVATE(function, name) \
	SYMVER(function, name, "@@", "IBVERBS_PRIVATE_34"); \
	ALIAS(function, name, 57); \
	ALIAS(function, name, 59); \
	ALIAS(function, name, 64); \
	ALIAS(function, name, 65)

#endif
