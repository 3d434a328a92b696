#include "event/loop.h"

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <catch2/catch.hpp>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

namespace holdfast::event::testing {
namespace {

using namespace std::chrono_literals;

TEST_CASE("posted calls are made in order, from any thread", "[event]") {
  Loop loop;
  std::vector<int> made;
  std::thread other([&] {
    for (int i = 0; i < 1000; ++i) loop.post([&made, i] { made.push_back(i); });
    loop.post([&] { loop.stop(); });
  });
  loop.run();
  other.join();
  REQUIRE(made.size() == 1000);
  CHECK(std::is_sorted(made.begin(), made.end()));
}

TEST_CASE("a timer calls once, in order of time, and not after it is dropped", "[event]") {
  Loop loop;
  std::string made;
  Timer late = loop.after(40ms, [&] {
    made += "late";
    loop.stop();
  });
  Timer early = loop.after(10ms, [&] { made += "early "; });
  Timer dropped = loop.after(5ms, [&] { made += "dropped "; });
  Timer replaced = loop.after(5ms, [&] { made += "replaced "; });
  dropped.cancel();
  replaced = loop.after(20ms, [&] { made += "second "; });
  CHECK(early.is_armed());
  CHECK_FALSE(dropped.is_armed());
  {
    const Timer scoped = loop.after(1ms, [&] { made += "scoped "; });
  }
  const Timer moved = std::move(early);
  loop.run();
  CHECK(made == "early second late");
  CHECK_FALSE(late.is_armed());
}

TEST_CASE("a timer may be dropped and armed again inside its own call", "[event]") {
  Loop loop;
  int calls = 0;
  Timer timer;
  std::function<void()> again = [&] {
    if (++calls == 3) return loop.stop();
    timer = loop.after(1ms, again);
  };
  timer = loop.after(std::chrono::nanoseconds(0), again);
  const Timer never = loop.after(std::chrono::nanoseconds::max(), [&] { calls = 100; });
  loop.run();
  CHECK(calls == 3);
}

TEST_CASE("signals come as calls, again and again", "[event]") {
  Loop loop;
  std::vector<int> seen;
  loop.on_signal({SIGUSR1, SIGUSR2}, [&](int number) {
    seen.push_back(number);
    if (seen.size() == 1) (void)::raise(SIGUSR2);
    if (seen.size() == 2) (void)::raise(SIGUSR1);
    if (seen.size() == 3) loop.stop();
  });
  (void)::raise(SIGUSR1);
  loop.run();
  CHECK(seen == std::vector<int>{SIGUSR1, SIGUSR2, SIGUSR1});
}

TEST_CASE("a loop can be stopped and run again", "[event]") {
  Loop loop;
  int calls = 0;
  for (int i = 0; i < 3; ++i) {
    loop.post([&] {
      ++calls;
      loop.stop();
    });
    loop.run();
  }
  CHECK(calls == 3);
}

TEST_CASE("code that uses Boost.Asio itself runs on the loop", "[event]") {
  Loop loop;
  boost::asio::post(loop.context(), [&] { loop.stop(); });
  loop.run();
  SUCCEED("the posted call stopped the loop");
}

}  // namespace
}  // namespace holdfast::event::testing
