/* ibv_get_sysfs_path and ibv_read_sysfs_file, on files of our own. */
#include "check.h"

#include <fcntl.h>
#include <sys/stat.h>

static char folder[] = "/tmp/c-tests-sysfs-XXXXXX";

static void path_default(void)
{
	unsetenv("SYSFS_PATH");
	out("path %s", ibv_get_sysfs_path());
	setenv("SYSFS_PATH", "/elsewhere", 1);
	out("path asked again %s", ibv_get_sysfs_path());
}

static void path_from(const char *value)
{
	setenv("SYSFS_PATH", value, 1);
	out("path from '%s' is '%s'", value, ibv_get_sysfs_path());
}

static void path_plain(void) { path_from("/tmp/tree"); }
static void path_slash(void) { path_from("/tmp/tree/"); }
static void path_slashes(void) { path_from("/tmp/tree///"); }
static void path_empty(void) { path_from(""); }
static void path_root(void) { path_from("/"); }

static void path_long(void)
{
	static char value[400];

	memset(value, 'a', sizeof(value) - 1);
	value[0] = '/';
	setenv("SYSFS_PATH", value, 1);
	out("long path has %zu characters", strlen(ibv_get_sysfs_path()));
}

static void put(const char *name, const char *text, size_t size)
{
	char path[200];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	fd = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0600);
	expect(fd >= 0);
	expect(write(fd, text, size) == (ssize_t)size);
	close(fd);
}

static void read_into(const char *name, size_t size)
{
	char buffer[40];
	int length;
	size_t i;

	memset(buffer, '#', sizeof(buffer));
	errno = 0;
	length = ibv_read_sysfs_file(folder, name, buffer, size);
	if (length < 0) {
		out("%s into %zu: %d, errno %s", name, size, length, errno_name(errno));
		return;
	}
	for (i = 0; i < sizeof(buffer); i++)
		if (buffer[i] == '\0')
			buffer[i] = '0';
		else if (buffer[i] == '\n')
			buffer[i] = '~';
	out("%s into %zu: %d, %.16s", name, size, length, buffer);
	/* Nothing may be written behind the end. */
	for (i = size; i < sizeof(buffer); i++)
		expect(buffer[i] == '#');
}

int main(void)
{
	static const char *const names[] = { "empty", "plain", "line", "two", "newline",
					     "eight", "missing", "dir" };
	static const size_t sizes[] = { 1, 4, 5, 6, 7, 8, 9, 16 };
	char command[200];
	int descriptors = open_descriptors();
	size_t i, k;

	in_child("default", path_default);
	in_child("plain", path_plain);
	in_child("slash", path_slash);
	in_child("slashes", path_slashes);
	in_child("empty", path_empty);
	in_child("root", path_root);
	in_child("long", path_long);

	expect(mkdtemp(folder) != NULL);
	put("empty", "", 0);
	put("plain", "value", 5);
	put("line", "value\n", 6);
	put("two", "a\nb\n", 4);
	put("newline", "\n", 1);
	put("eight", "1234567\n", 8);
	snprintf(command, sizeof(command), "%s/dir", folder);
	expect(!mkdir(command, 0700));
	for (i = 0; i < ARRAY_LEN(names); i++)
		for (k = 0; k < ARRAY_LEN(sizes); k++)
			read_into(names[i], sizes[k]);
	out("descriptors left %d", open_descriptors() - descriptors);
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	expect(!system(command));
	return done();
}
