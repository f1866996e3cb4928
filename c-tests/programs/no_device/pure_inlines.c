/* Inline functions and macros of the headers that call nothing. */
#include "check.h"

/* The header declares itself and its functions obsolete; old programs use them. */
#ifdef __clang__
#pragma GCC diagnostic ignored "-W#warnings"
#else
#pragma GCC diagnostic ignored "-Wcpp"
#endif
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#include <infiniband/arch.h>
#include <infiniband/opcode.h>

enum {
	BASE_TEST = 0x40,
};
#define IBV_OPCODE_TEST BASE_TEST
enum { IBV_OPCODE(TEST, SEND_FIRST) };

int main(void)
{
	struct ibv_context plain = { .abi_compat = NULL };
	/* One call, so that the program is linked with the library at all. */
	const char *state = ibv_port_state_str(IBV_PORT_ACTIVE);
	uint32_t label;
	int type;

	out("state %s", state);
	out("htonll %016llx ntohll %016llx", (unsigned long long)htonll(0x0102030405060708ULL),
	    (unsigned long long)ntohll(0x0102030405060708ULL));
	for (label = 0; label < 0x200000; label = label * 3 + 1)
		out("flow label %x: port %u", label, ibv_flow_label_to_udp_sport(label));
	for (label = 0; label < 4; label++)
		out("next rkey %x", ibv_inc_rkey(0x123456fdU + label));
	for (type = 0; type < 32; type++)
		out("type %d in 0x%x: %d", type, 0x80000105U, ibv_is_qpt_supported(0x80000105U, type));
	out("opcode %x %x %x", IBV_OPCODE_RC_SEND_ONLY, IBV_OPCODE_UD_SEND_ONLY_WITH_IMMEDIATE,
	    IBV_OPCODE_RDMA_READ_RESPONSE_MIDDLE);
	out("opcodes by transport %x %x", IBV_OPCODE_UC + IBV_OPCODE_RDMA_WRITE_ONLY,
	    IBV_OPCODE_UC_RDMA_WRITE_ONLY);
	out("opcode made by the macro %x", IBV_OPCODE_TEST_SEND_FIRST);
	out("avail %d %d", vext_field_avail(struct ibv_wc, byte_len, sizeof(struct ibv_wc)),
	    vext_field_avail(struct ibv_wc, byte_len, 4));
	out("extension of a plain context: %s", verbs_get_ctx(&plain) ? "object" : "NULL");
	out("operation of a plain context: %s",
	    verbs_get_ctx_op(&plain, query_port) ? "object" : "NULL");
	return done();
}
