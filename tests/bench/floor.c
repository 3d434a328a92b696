/* The floor of a lock tool: a bare program that makes the same file operations and nothing else.
 *   floor lock LOCK ID    floor unlock LOCK ID
 * No check, no record of anybody, no recovery: only what the directory needs. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char build[4096], scratch[4096], proposal[4096], proposed[4096], owner[4096], leaf[4096];

int main(int argc, char **argv) {
  if (argc < 4) return 10;
  const char *lock = argv[2], *id = argv[3];
  snprintf(owner, sizeof owner, "%s/owner", lock);
  snprintf(leaf, sizeof leaf, "%s/owner/%s", lock, id);
  if (strcmp(argv[1], "unlock") == 0) {
    const int failed = unlink(leaf) | rmdir(owner) | rmdir(lock);
    return failed ? 1 : 0;
  }
  snprintf(build, sizeof build, "%s/build", lock);
  snprintf(scratch, sizeof scratch, "%s/build/%s", lock, id);
  snprintf(proposal, sizeof proposal, "%s/build/%s/owner", lock, id);
  snprintf(proposed, sizeof proposed, "%s/build/%s/owner/%s", lock, id, id);
  if (mkdir(lock, 0777) | mkdir(build, 0777) | mkdir(scratch, 0777) | mkdir(proposal, 0777)) return 2;
  char text[240];
  memset(text, 'x', sizeof text);
  int fd = open(proposed, O_CREAT | O_EXCL | O_WRONLY, 0666);
  if (fd < 0 || write(fd, text, sizeof text) != sizeof text || close(fd)) return 2;
  if (rename(proposal, owner)) return 1;
  fd = open(leaf, O_RDONLY);
  if (fd < 0 || read(fd, text, sizeof text) != sizeof text || close(fd)) return 1;
  return rmdir(scratch) | rmdir(build) ? 1 : 0;
}
