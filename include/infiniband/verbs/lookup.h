/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* How an inline verb finds its slot in a context that may be older than it. */
#ifndef INFINIBAND_VERBS_LOOKUP_H
#define INFINIBAND_VERBS_LOOKUP_H

#include <stddef.h>
#include <stdint.h>
#include <infiniband/verbs/context.h>

#ifdef __cplusplus
#include <limits>
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Whether a structure of sz bytes reaches as far as the member. */
#define vext_field_avail(type, fld, sz) (offsetof(type, fld) < (sz))

/* The value of ibv_context.abi_compat inside a struct verbs_context. */
#ifdef __cplusplus
#define __VERBS_ABI_IS_EXTENDED ((void *)std::numeric_limits<uintptr_t>::max())
#else
#define __VERBS_ABI_IS_EXTENDED ((void *)UINTPTR_MAX)
#endif

/* The structure around a context, or NULL if it has none. */
static inline struct verbs_context *verbs_get_ctx(struct ibv_context *ctx)
{
	char *end = (char *)ctx;

	if (ctx->abi_compat != __VERBS_ABI_IS_EXTENDED)
		return NULL;
	return (struct verbs_context *)(void *)
		(end - offsetof(struct verbs_context, context));
}

/*
 * The structure around a context if it has this slot and the slot is filled,
 * else NULL. Slots are counted from the end, so that sz, which the library sets,
 * answers for programs built with a longer or a shorter structure.
 */
#define verbs_get_ctx_op(ctx, op) \
	__extension__({ \
		struct verbs_context *__vctx = verbs_get_ctx(ctx); \
		if (__vctx && \
		    (__vctx->sz < sizeof(*__vctx) - \
				  offsetof(struct verbs_context, op) || \
		     !__vctx->op)) \
			__vctx = NULL; \
		__vctx; \
	})

#ifdef __cplusplus
}
#endif

#endif /* INFINIBAND_VERBS_LOOKUP_H */
