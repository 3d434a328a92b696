/// A process whose first thread is over while a second one lives: a zombie to look at.
#include <pthread.h>
#include <unistd.h>

namespace {
void* live(void*) {
  for (;;) pause();
}
}  // namespace

int main() {
  pthread_t second;
  if (pthread_create(&second, nullptr, live, nullptr) != 0) return 1;
  pthread_exit(nullptr);
}
