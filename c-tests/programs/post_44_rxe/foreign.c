/*
 * Plugins of rdma-core for kernel drivers of which there is no device stay out of the process,
 * unless the user names them.
 */
#include "rdma.h"

#include <sys/wait.h>

static int is_mapped(const char *plugin)
{
	char line[600];
	int found = 0;
	FILE *maps = fopen("/proc/self/maps", "r");

	expect(maps != NULL);
	while (!found && fgets(line, sizeof(line), maps))
		found = strstr(line, plugin) != NULL;
	fclose(maps);
	return found;
}

static void list(void)
{
	struct ibv_device **devices;
	int count;

	expect(!is_mapped("/librxe") && !is_mapped("/libmlx5") && !is_mapped("/libmthca"));
	devices = MUST_PTR(ibv_get_device_list(&count));
	expect(count == 1 && is_mapped("/librxe"));
	out("mlx5: %d, mthca: %d", is_mapped("/libmlx5"), is_mapped("/libmthca"));
	ibv_free_device_list(devices);
}

/* Each in a separate process, because loaded providers remain. */
static void with(const char *name, const char *value)
{
	pid_t child;
	int status;

	out("%s", name);
	fflush(stdout);
	child = fork();
	expect(child >= 0);
	if (!child) {
		setenv("IBVERBS_PREFER_PLUGIN", "all", 1);
		setenv(name, value, 1);
		list();
		exit(done());
	}
	expect(waitpid(child, &status, 0) == child && !status);
}

int main(void)
{
	with("NOTHING", "");
	with("RDMAV_DRIVERS", "mthca");
	with("IBV_DRIVERS", "mlx5:mthca");
	return done();
}
