/// Starts itself anew from a thread, over and over: the kernel puts another task under the same pid
/// each time.
#include <unistd.h>

#include <thread>

int main(int, char** argv) {
  alarm(60);  // whoever started it may be gone
  std::thread([argv] { execv("/proc/self/exe", argv); }).join();
}
