/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Commands of the ioctl interface: a buffer on the stack, filled with attributes,
 * handed down by execute_ioctl() or to an ibv_cmd_*() that takes a link.
 *
 *	DECLARE_COMMAND_BUFFER(cmd, UVERBS_OBJECT_DM, UVERBS_METHOD_DM_FREE, 1);
 *	fill_attr_in_obj(cmd, UVERBS_ATTR_FREE_DM_HANDLE, handle);
 *	ret = execute_ioctl(context, cmd);
 *
 * The buffer and the memory that its attributes point to belong to the caller, and must remain
 * unchanged until the call returns.
 */
#ifndef __INFINIBAND_VERBS_IOCTL_H
#define __INFINIBAND_VERBS_IOCTL_H

#include <infiniband/driver/generation.h>
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <infiniband/driver/support.h>
#include <infiniband/verbs.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A pointer as the kernel takes it. */
static inline uint64_t ioctl_ptr_to_u64(const void *ptr)
{
	return (uintptr_t)ptr;
}

/*
 * Makes the 64 bits of a RDMA_UAPI_PTR whole after the pointer was set: where
 * pointers are shorter the rest was not written.
 */
static inline void _scrub_ptr_attr(void **ptr)
{
#if UINTPTR_MAX == UINT64_MAX
	(void)ptr;
#else
	typedef RDMA_UAPI_PTR(void *, data) scrub_data_t;
	scrub_data_t *scrub_data = container_of(ptr, scrub_data_t, data);

	scrub_data->data_data_u64 = ioctl_ptr_to_u64(scrub_data->data);
#endif
}

#define scrub_ptr_attr(ptr) _scrub_ptr_attr((void **)(&ptr))

/*
 * A block of attributes. Blocks are linked: a provider declares its own and passes
 * it as a link to the library, which declares the next and sends all as one.
 */
__extension__ struct ibv_command_buffer {
	struct ibv_command_buffer *next;
	/* Free attributes: [next_attr, last_attr). */
	struct ib_uverbs_attr *next_attr;
	struct ib_uverbs_attr *last_attr;
	/*
	 * For the write() fallback: which attributes are the provider's request and
	 * answer, and how many dwords in front of them are free for the header and
	 * the kernel's part.
	 */
	uint8_t uhw_in_idx;
	uint8_t uhw_out_idx;
	uint8_t uhw_in_headroom_dwords;
	uint8_t uhw_out_headroom_dwords;

	/* An attribute could not be filled: sending answers EINVAL. */
	uint8_t buffer_error : 1;
	/* Without ioctl: only the extended write command will do. */
	uint8_t fallback_require_ex : 1;
	/* Without ioctl: the command cannot be done. */
	uint8_t fallback_ioctl_only : 1;
	/* Its attributes follow, in the elements of the array after this one. */
	__extension__ struct ib_uverbs_ioctl_hdr hdr;
};

enum { _UHW_NO_INDEX = 0xFF };

/* How many elements hold a block with so many attributes. */
#define _IOCTL_NUM_CMDB(_num_attrs) \
	((2 * sizeof(struct ibv_command_buffer) - 1 + \
	  (_num_attrs) * sizeof(struct ib_uverbs_attr)) / \
	 sizeof(struct ibv_command_buffer))

/* The attributes of the whole chain, num_attrs being those of the new block. */
unsigned int __ioctl_final_num_attrs(unsigned int num_attrs,
				     struct ibv_command_buffer *link);

/* No call, and an array of constant size, where there is plainly no link. */
#define _ioctl_final_num_attrs(_num_attrs, _link) \
	(__builtin_constant_p((uintptr_t)(_link)) && !(uintptr_t)(_link) ? \
		 (_num_attrs) : \
		 __ioctl_final_num_attrs(_num_attrs, _link))

/* Prepares a block; 0, so that a declaration can be initialised with the call. */
static inline int _ioctl_init_cmdb(struct ibv_command_buffer *cmd,
				   uint16_t object_id, uint16_t method_id,
				   size_t num_attrs,
				   struct ibv_command_buffer *link)
{
	memset(cmd, 0, sizeof(*cmd));
	cmd->next = link;
	cmd->next_attr = cmd->hdr.attrs;
	cmd->last_attr = cmd->hdr.attrs + num_attrs;
	cmd->uhw_in_idx = _UHW_NO_INDEX;
	cmd->uhw_out_idx = _UHW_NO_INDEX;
	cmd->hdr.object_id = object_id;
	cmd->hdr.method_id = method_id;
	return 0;
}

/* Declares _name, a block of _num_attrs attributes (need not be constant). */
#define DECLARE_COMMAND_BUFFER_LINK(_name, _object_id, _method_id, _num_attrs, \
				    _link) \
	const unsigned int __##_name##total = \
		_ioctl_final_num_attrs(_num_attrs, _link); \
	struct ibv_command_buffer _name[_IOCTL_NUM_CMDB(__##_name##total)]; \
	int __attribute__((unused)) __##_name##dummy = _ioctl_init_cmdb( \
		_name, _object_id, _method_id, __##_name##total, _link)

#define DECLARE_COMMAND_BUFFER(_name, _object_id, _method_id, _num_attrs) \
	DECLARE_COMMAND_BUFFER_LINK(_name, _object_id, _method_id, _num_attrs, \
				    NULL)

/* Sends the chain that cmd ends. 0 or a positive errno. */
int execute_ioctl(struct ibv_context *context, struct ibv_command_buffer *cmd);

/*
 * Takes the next attribute of the block; more than were declared is an error of the
 * caller. An attribute is mandatory, which attr_optional() undoes.
 */
static inline struct ib_uverbs_attr *
_ioctl_next_attr(struct ibv_command_buffer *cmd, uint16_t attr_id)
{
	struct ib_uverbs_attr *attr = cmd->next_attr;

	assert(attr < cmd->last_attr);
	cmd->next_attr++;
	memset(attr, 0, sizeof(*attr));
	attr->attr_id = attr_id;
	attr->flags = UVERBS_ATTR_F_MANDATORY;
	return attr;
}

/* A kernel that does not know the attribute ignores it. NULL passes through. */
static inline struct ib_uverbs_attr *attr_optional(struct ib_uverbs_attr *attr)
{
	if (attr)
		attr->flags = (uint16_t)(attr->flags & ~UVERBS_ATTR_F_MANDATORY);
	return attr;
}

/* A length beyond 16 bits spoils the block. */
static inline void _ioctl_set_len(struct ibv_command_buffer *cmd,
				  struct ib_uverbs_attr *attr, size_t len)
{
	if (unlikely(len > UINT16_MAX))
		cmd->buffer_error = 1;
	attr->len = (uint16_t)len;
}

/* The handle of an object. */
static inline struct ib_uverbs_attr *
fill_attr_in_obj(struct ibv_command_buffer *cmd, uint16_t attr_id, uint32_t idr)
{
	struct ib_uverbs_attr *attr = _ioctl_next_attr(cmd, attr_id);

	attr->data = idr;
	return attr;
}

/* Room for the handle of an object to be made; read_attr_obj() has it then. */
static inline struct ib_uverbs_attr *
fill_attr_out_obj(struct ibv_command_buffer *cmd, uint16_t attr_id)
{
	return fill_attr_in_obj(cmd, attr_id, 0);
}

static inline uint32_t read_attr_obj(uint16_t attr_id,
				     struct ib_uverbs_attr *attr)
{
	assert(attr->attr_id == attr_id);
	(void)attr_id;
	return (uint32_t)attr->data;
}

/* Data for the kernel: copied up to 8 bytes, else pointed to. */
static inline struct ib_uverbs_attr *
fill_attr_in(struct ibv_command_buffer *cmd, uint16_t attr_id, const void *data,
	     size_t len)
{
	struct ib_uverbs_attr *attr = _ioctl_next_attr(cmd, attr_id);

	_ioctl_set_len(cmd, attr, len);
	if (len > sizeof(uint64_t))
		attr->data = ioctl_ptr_to_u64(data);
	else if (len)
		memcpy(&attr->data, data, len);
	return attr;
}

#define fill_attr_in_ptr(cmd, attr_id, ptr) \
	fill_attr_in(cmd, attr_id, ptr, sizeof(*ptr))

static inline struct ib_uverbs_attr *
fill_attr_in_uint64(struct ibv_command_buffer *cmd, uint16_t attr_id,
		    uint64_t data)
{
	return fill_attr_in(cmd, attr_id, &data, sizeof(data));
}

/* The kernel takes enumerators and flags as 64 bits. */
#define fill_attr_const_in(cmd, attr_id, _data) \
	fill_attr_in_uint64(cmd, attr_id, _data)

static inline struct ib_uverbs_attr *
fill_attr_in_uint32(struct ibv_command_buffer *cmd, uint16_t attr_id,
		    uint32_t data)
{
	return fill_attr_in(cmd, attr_id, &data, sizeof(data));
}

/* A descriptor; -1 leaves the attribute out, and NULL is returned. */
static inline struct ib_uverbs_attr *
fill_attr_in_fd(struct ibv_command_buffer *cmd, uint16_t attr_id, int fd)
{
	struct ib_uverbs_attr *attr;

	if (fd == -1)
		return NULL;
	attr = _ioctl_next_attr(cmd, attr_id);
	attr->data = (uint64_t)(int64_t)fd;
	return attr;
}

/* Room for a descriptor to be made; read_attr_fd() has it then. */
static inline struct ib_uverbs_attr *
fill_attr_out_fd(struct ibv_command_buffer *cmd, uint16_t attr_id, int fd)
{
	(void)fd;
	return _ioctl_next_attr(cmd, attr_id);
}

/* After success the kernel has made one: never -1. */
static inline int read_attr_fd(uint16_t attr_id, struct ib_uverbs_attr *attr)
{
	assert(attr->attr_id == attr_id);
	(void)attr_id;
	return (int)attr->data;
}

/* Memory for the kernel to write. */
static inline struct ib_uverbs_attr *
fill_attr_out(struct ibv_command_buffer *cmd, uint16_t attr_id, void *data,
	      size_t len)
{
	struct ib_uverbs_attr *attr = _ioctl_next_attr(cmd, attr_id);

	_ioctl_set_len(cmd, attr, len);
	attr->data = ioctl_ptr_to_u64(data);
	return attr;
}

#define fill_attr_out_ptr(cmd, attr_id, ptr) \
	fill_attr_out(cmd, attr_id, ptr, sizeof(*(ptr)))

/* Bytes of an array; SIZE_MAX where they cannot be counted. */
static inline size_t _array_len(size_t size, size_t nelems)
{
	return size && nelems >= SIZE_MAX / size ? SIZE_MAX : size * nelems;
}

#define fill_attr_out_ptr_array(cmd, attr_id, ptr, nelems) \
	fill_attr_out(cmd, attr_id, ptr, _array_len(sizeof(*ptr), nelems))

#define fill_attr_in_ptr_array(cmd, attr_id, ptr, nelems) \
	fill_attr_in(cmd, attr_id, ptr, _array_len(sizeof(*ptr), nelems))

/* A division that must leave no rest. */
static inline size_t __check_divide(size_t val, unsigned int div)
{
	assert(val % div == 0);
	return val / div;
}

/* One of several kinds of data, elem_id telling which. */
static inline struct ib_uverbs_attr *
fill_attr_in_enum(struct ibv_command_buffer *cmd, uint16_t attr_id,
		  uint8_t elem_id, const void *data, size_t len)
{
	struct ib_uverbs_attr *attr = fill_attr_in(cmd, attr_id, data, len);

	attr->attr_data.enum_data.elem_id = elem_id;
	return attr;
}

/* Handles of several objects. */
static inline struct ib_uverbs_attr *
fill_attr_in_objs_arr(struct ibv_command_buffer *cmd, uint16_t attr_id,
		      const uint32_t *idrs_arr, size_t nelems)
{
	return fill_attr_in(cmd, attr_id, idrs_arr,
			    _array_len(sizeof(*idrs_arr), nelems));
}

#ifdef __cplusplus
}
#endif

#endif /* __INFINIBAND_VERBS_IOCTL_H */
