/* Device list and import where nothing fits: no tree, an empty tree, strange descriptors. */
#include "check.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>

static void list_of(const char *tree)
{
	struct ibv_device **list;
	int count = 77, descriptors = open_descriptors();

	if (tree)
		setenv("SYSFS_PATH", tree, 1);
	errno = 0;
	list = ibv_get_device_list(&count);
	out("list %s, count %s, errno %s", list ? "object" : "NULL",
	    count > 0 ? "positive" : count ? "negative" : "0", list ? "-" : errno_name(errno));
	if (list)
		ibv_free_device_list(list);
	errno = 0;
	list = ibv_get_device_list(NULL);
	out("list without count %s, errno %s", list ? "object" : "NULL",
	    list ? "-" : errno_name(errno));
	if (list) {
		out("first entry %s", list[0] ? "device" : "NULL");
		ibv_free_device_list(list);
	}
	out("descriptors left %d", open_descriptors() - descriptors);
}

static void real_tree(void) { list_of(NULL); }
static void no_tree(void) { list_of("/nonexistent/tree"); }

static void descriptors(void)
{
	int before = open_descriptors();
	int null = open("/dev/null", O_RDWR);
	int file = open("/etc/hostname", O_RDONLY);
	int folder = open("/", O_RDONLY);
	int ends[2];
	int sock = socket(AF_UNIX, SOCK_STREAM, 0);

	expect(null >= 0 && file >= 0 && folder >= 0 && sock >= 0 && !pipe(ends));
	PTR(ibv_import_device(-1));
	PTR(ibv_import_device(100000));
	PTR(ibv_import_device(null));
	PTR(ibv_import_device(file));
	PTR(ibv_import_device(folder));
	PTR(ibv_import_device(ends[0]));
	PTR(ibv_import_device(sock));
	/* A descriptor that could not be imported stays the caller's. */
	expect(!close(null) && !close(file) && !close(folder) && !close(sock));
	expect(!close(ends[0]) && !close(ends[1]));
	out("descriptors left %d", open_descriptors() - before);
}

int main(void)
{
	in_child("this machine", real_tree);
	in_child("no tree", no_tree);
	in_child("import", descriptors);
	return done();
}
