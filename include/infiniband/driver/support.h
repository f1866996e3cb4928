/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Small helpers for the provider headers. If the ccan headers of the rdma-core tree are on the
 * include path, they are used, so that a provider of that tree builds here unchanged; otherwise the
 * needed parts are defined below.
 */
#ifndef INFINIBAND_DRIVER_SUPPORT_H
#define INFINIBAND_DRIVER_SUPPORT_H

#include <assert.h>
#include <stddef.h>

#ifdef __has_include
#if __has_include(<ccan/list.h>) && __has_include(<util/compiler.h>)
#define __VERBS_CCAN 1
#endif
#endif

#ifdef __VERBS_CCAN
#if __has_include(<config.h>)
#include <config.h>
#endif
#include <ccan/container_of.h>
#include <ccan/list.h>
#include <util/compiler.h>
#else

/* A link of a circular list. The library's; providers leave it alone. */
struct list_node {
	struct list_node *next, *prev;
};

/* The list itself: its link stands before the first and after the last. */
struct list_head {
	struct list_node n;
};

/* The object of this type whose member the pointer points to. */
#ifndef container_of
#define container_of(member_ptr, containing_type, member) \
	((containing_type *)(void *)((char *)(member_ptr) - \
				     offsetof(containing_type, member)))
#endif

#ifndef likely
#define likely(x) __builtin_expect(!!(x), 1)
#endif
#ifndef unlikely
#define unlikely(x) __builtin_expect(!!(x), 0)
#endif
#endif /* __VERBS_CCAN */

#ifndef stringify
#define stringify(expr) stringify_1(expr)
#define stringify_1(expr) #expr
#endif

/* A check at compile time, in every language level. */
#ifdef __cplusplus
#define __VERBS_ASSERT(cond, text) static_assert(cond, text)
#else
#define __VERBS_ASSERT(cond, text) __extension__ _Static_assert(cond, text)
#endif

#endif /* INFINIBAND_DRIVER_SUPPORT_H */
