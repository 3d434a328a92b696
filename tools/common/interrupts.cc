#include "common/interrupts.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <system_error>

namespace holdfast::tools {
namespace {

sigset_t interrupts() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction now {};
    // who was started with a signal ignored (nohup) goes on ignoring it
    if (sigaction(signal, nullptr, &now) == 0 && now.sa_handler != SIG_IGN) sigaddset(&set, signal);
  }
  return set;
}

}  // namespace

Interrupts::Interrupts() {
  const sigset_t set = interrupts();
  fd_ = disk::Handle(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd_.is_open()) throw std::system_error(errno, std::generic_category(), "signalfd");
  sigprocmask(SIG_BLOCK, &set, nullptr);
}

bool Interrupts::came() const {
  pollfd one{fd_.fd(), POLLIN, 0};
  return poll(&one, 1, 0) == 1;
}

void Interrupts::die() const {
  const sigset_t set = interrupts();
  // the signal is still pending: without the block it is delivered, and ends this process
  sigprocmask(SIG_UNBLOCK, &set, nullptr);
  std::exit(1);
}

}  // namespace holdfast::tools
