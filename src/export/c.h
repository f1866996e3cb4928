/*
 * What the library's files in C share: how functions get their symbol versions, and what is in
 * Rust.
 */
#ifndef C_H
#define C_H

#define RUST __attribute__((visibility("hidden")))
#define FORMAT(fmt, first) __attribute__((format(printf, fmt, first)))

/* SYMVER(function, name, "@@", "NODE"): exports `function` as name@@NODE. */
#define SYMVER(function, name, at, node) __asm__(".symver " #function ", " #name at node)
/* Under every private node. Those beside the default need a symbol of their own. */
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
