// Preloaded into a process (LD_PRELOAD), makes a disk hang: calls about paths below
// WEIR_HANG_BELOW wait for as long as the file WEIR_HANG_WHILE exists, as they do on a network file
// system whose server is away. Unlike a frozen mount it can be ended, and so can the process.
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdarg>

namespace {

void WaitForDisk(const char* path) {
  static const char* const below = getenv("WEIR_HANG_BELOW");
  static const char* const flag = getenv("WEIR_HANG_WHILE");
  if (below == nullptr || flag == nullptr || strncmp(path, below, strlen(below)) != 0) return;
  while (syscall(SYS_access, flag, F_OK) == 0) usleep(10'000);
}

template <typename Function>
Function Next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

int OpenWith(const char* name, const char* path, int flags, va_list arguments) {
  static_assert(sizeof(mode_t) <= sizeof(int));
  mode_t mode = (flags & O_CREAT) != 0 ? static_cast<mode_t>(va_arg(arguments, int)) : 0;
  WaitForDisk(path);
  return Next<int (*)(const char*, int, ...)>(name)(path, flags, mode);
}

// The descriptor's path: also what was opened before must hang.
void WaitForDiskOf(int fd) {
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, sizeof(path) - 1);
  if (length <= 0) return;
  path[length] = '\0';
  WaitForDisk(path);
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  int fd = OpenWith("open", path, flags, arguments);
  va_end(arguments);
  return fd;
}

int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  int fd = OpenWith("open64", path, flags, arguments);
  va_end(arguments);
  return fd;
}

int fsync(int fd) {
  WaitForDiskOf(fd);
  return Next<int (*)(int)>("fsync")(fd);
}

int mkdir(const char* path, mode_t mode) {
  WaitForDisk(path);
  return Next<int (*)(const char*, mode_t)>("mkdir")(path, mode);
}

int rename(const char* from, const char* to) {
  WaitForDisk(from);
  return Next<int (*)(const char*, const char*)>("rename")(from, to);
}

int link(const char* from, const char* to) {
  WaitForDisk(from);
  return Next<int (*)(const char*, const char*)>("link")(from, to);
}

int unlink(const char* path) {
  WaitForDisk(path);
  return Next<int (*)(const char*)>("unlink")(path);
}

int rmdir(const char* path) {
  WaitForDisk(path);
  return Next<int (*)(const char*)>("rmdir")(path);
}

int stat(const char* path, struct stat* info) noexcept {
  WaitForDisk(path);
  return Next<int (*)(const char*, struct stat*)>("stat")(path, info);
}

DIR* opendir(const char* path) {
  WaitForDisk(path);
  return Next<DIR* (*)(const char*)>("opendir")(path);
}

}  // extern "C"
