/*
 * Calls on a small stack, as coroutine libraries have them: how much of it each uses at most, from
 * a painted stack with a page behind it that may not be used.
 */
#define DEVICE_NAME "uroce_lo"
#define IPV4_INDEX 0
#include "rdma.h"
#include "network.h"

#include <sys/mman.h>
#include <ucontext.h>

/*
 * Coroutine libraries give 16 KiB, of which frames of the program and of signal handlers take a
 * part.
 */
enum { STACK = 64 * 1024, MOST = 10 * 1024, PAINT = 0xa5 };

static ucontext_t here, there;
static unsigned char *stack;
static void (*call)(void);
static size_t worst;

static void enter(void)
{
	call();
}

/* How many bytes the call used; its name, if that is more than any call may. */
static void on_small_stack(const char *name, void (*run)(void))
{
	size_t used;

	call = run;
	memset(stack, PAINT, STACK);
	MUST(getcontext(&there));
	there.uc_stack.ss_sp = stack;
	there.uc_stack.ss_size = STACK;
	there.uc_link = &here;
	makecontext(&there, enter, 0);
	MUST(swapcontext(&here, &there));
	for (used = STACK; used && stack[STACK - used] == PAINT; used--)
		;
	if (getenv("SHOW"))
		fprintf(stderr, "%6zu %s\n", used, name);
	if (used > worst)
		worst = used;
	if (used > MOST)
		out("%s uses %zu bytes of stack", name, used);
}

static struct ibv_device **list;
static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;
static struct ibv_srq *srq;
static struct ibv_qp *qp;
static struct ibv_mr *mr;
static struct ibv_ah *ah;
static struct ibv_td *td;
static struct ibv_mw *mw;
static char memory[1 << 16];
static struct ibv_device_attr device_attr;
static struct ibv_device_attr_ex device_attr_ex;
static struct ibv_port_attr port_attr;
static struct ibv_gid_entry gids[16];
static union ibv_gid gid;
static uint16_t pkey;
static struct ibv_qp_attr attr;
static struct ibv_qp_init_attr init;
static struct ibv_srq_init_attr srq_init = { .attr = { .max_wr = 4, .max_sge = 1 } };
static struct ibv_ah_attr address;
static struct ibv_td_init_attr td_init;
static struct ibv_sge buffer;
static struct ibv_send_wr wr, *bad;
static struct ibv_recv_wr receive, *bad_receive;
static struct ibv_wc wc;
static struct ibv_cq *event_cq;
static void *own;

static void get_device_list(void) { list = MUST_PTR(ibv_get_device_list(NULL)); }
static void open_device(void) { context = MUST_PTR(ibv_open_device(list[0])); }
static void query_device(void) { MUST(ibv_query_device(context, &device_attr)); }
static void query_device_ex(void) { MUST(ibv_query_device_ex(context, NULL, &device_attr_ex)); }
static void query_port(void) { MUST(ibv_query_port(context, 1, &port_attr)); }
static void query_gid(void) { MUST(ibv_query_gid(context, 1, IPV4_INDEX, &gid)); }
static void query_gid_table(void) { expect(ibv_query_gid_table(context, gids, 16, 0) > 0); }
static void query_pkey(void) { MUST(ibv_query_pkey(context, 1, 0, &pkey)); }
static void alloc_pd(void) { pd = MUST_PTR(ibv_alloc_pd(context)); }
static void alloc_td(void) { td = MUST_PTR(ibv_alloc_td(context, &td_init)); }
static void alloc_mw(void) { mw = MUST_PTR(ibv_alloc_mw(pd, IBV_MW_TYPE_2)); }
static void create_channel(void) { channel = MUST_PTR(ibv_create_comp_channel(context)); }
static void create_cq(void) { cq = MUST_PTR(ibv_create_cq(context, 16, NULL, channel, 0)); }
static void resize_cq(void) { MUST(ibv_resize_cq(cq, 32)); }
static void notify(void) { MUST(ibv_req_notify_cq(cq, 0)); }
static void create_srq(void) { srq = MUST_PTR(ibv_create_srq(pd, &srq_init)); }
static void create_qp(void) { qp = MUST_PTR(ibv_create_qp(pd, &init)); }
static void reg_mr(void) { mr = MUST_PTR(ibv_reg_mr(pd, memory, sizeof(memory), ALL_ACCESS)); }
static void create_ah(void) { ah = MUST_PTR(ibv_create_ah(pd, &address)); }
static void to_init(void) { MUST(ibv_modify_qp(qp, &attr, RC_INIT_MASK)); }
static void to_rtr(void) { MUST(ibv_modify_qp(qp, &attr, RC_RTR_MASK)); }
static void to_rts(void) { MUST(ibv_modify_qp(qp, &attr, RC_RTS_MASK)); }
static void query_qp(void) { MUST(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init)); }
static void post_receive(void) { MUST(ibv_post_recv(qp, &receive, &bad_receive)); }
static void post_request(void) { MUST(ibv_post_send(qp, &wr, &bad)); }
static void get_event(void) { MUST(ibv_get_cq_event(channel, &event_cq, &own)); }
static void ack_event(void) { ibv_ack_cq_events(event_cq, 1); }
static void poll_all(void)
{
	int got, left = 2;

	while (left) {
		got = ibv_poll_cq(cq, 1, &wc);
		expect(got >= 0 && (!got || !wc.status));
		left -= got;
	}
}
static void destroy_ah(void) { MUST(ibv_destroy_ah(ah)); }
static void destroy_qp(void) { MUST(ibv_destroy_qp(qp)); }
static void destroy_srq(void) { MUST(ibv_destroy_srq(srq)); }
static void dealloc_mw(void) { MUST(ibv_dealloc_mw(mw)); }
static void dereg_mr(void) { MUST(ibv_dereg_mr(mr)); }
static void destroy_cq(void) { MUST(ibv_destroy_cq(cq)); }
static void destroy_channel(void) { MUST(ibv_destroy_comp_channel(channel)); }
static void dealloc_td(void) { MUST(ibv_dealloc_td(td)); }
static void dealloc_pd(void) { MUST(ibv_dealloc_pd(pd)); }
static void close_device(void) { MUST(ibv_close_device(context)); }
static void free_list(void) { ibv_free_device_list(list); }

#define ON_SMALL_STACK(name) on_small_stack(#name, name)

static void before(void)
{
	ON_SMALL_STACK(get_device_list);
	ON_SMALL_STACK(open_device);
	ON_SMALL_STACK(query_device);
	ON_SMALL_STACK(query_device_ex);
	ON_SMALL_STACK(query_port);
	ON_SMALL_STACK(query_gid);
	ON_SMALL_STACK(query_gid_table);
	ON_SMALL_STACK(query_pkey);
	ON_SMALL_STACK(alloc_pd);
	ON_SMALL_STACK(alloc_td);
	ON_SMALL_STACK(alloc_mw);
	ON_SMALL_STACK(create_channel);
	ON_SMALL_STACK(create_cq);
	ON_SMALL_STACK(resize_cq);
	ON_SMALL_STACK(notify);
	ON_SMALL_STACK(create_srq);
	init = init_attr(cq, IBV_QPT_RC);
	ON_SMALL_STACK(create_qp);
	ON_SMALL_STACK(reg_mr);
	address = own_address(context);
	ON_SMALL_STACK(create_ah);
}

static void between(uint32_t bytes)
{
	buffer = (struct ibv_sge){ (uintptr_t)memory, bytes, mr->lkey };
	receive = (struct ibv_recv_wr){ .sg_list = &buffer, .num_sge = 1 };
	wr = (struct ibv_send_wr){
		.sg_list = &buffer, .num_sge = 1, .opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	};
	ON_SMALL_STACK(post_receive);
	ON_SMALL_STACK(post_request);
	ON_SMALL_STACK(poll_all);
}

static void after(void)
{
	ON_SMALL_STACK(get_event);
	ON_SMALL_STACK(ack_event);
	ON_SMALL_STACK(query_qp);
	ON_SMALL_STACK(destroy_ah);
	ON_SMALL_STACK(destroy_qp);
	ON_SMALL_STACK(destroy_srq);
	ON_SMALL_STACK(dealloc_mw);
	ON_SMALL_STACK(dereg_mr);
	ON_SMALL_STACK(destroy_cq);
	ON_SMALL_STACK(destroy_channel);
	ON_SMALL_STACK(dealloc_td);
	ON_SMALL_STACK(dealloc_pd);
	ON_SMALL_STACK(close_device);
	ON_SMALL_STACK(free_list);
}

static void all(void)
{
	before();
	attr = attr_init();
	ON_SMALL_STACK(to_init);
	attr = attr_rtr(context, qp->qp_num);
	ON_SMALL_STACK(to_rtr);
	attr = attr_rts();
	ON_SMALL_STACK(to_rts);
	between(64);
	between(sizeof(memory));
	after();
	expect(worst <= MOST);
}

int main(void)
{
	if (!own_device())
		return done();
	stack = mmap(NULL, 4096 + STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	expect(stack != MAP_FAILED && !mprotect(stack, 4096, PROT_NONE));
	stack += 4096;
	in_child("by shared memory", all);
	setenv("UROCE_CARRIER", "udp", 1);
	in_child("by UDP", all);
	return done();
}
