/// The original semaphore.sh and our tools on one semaphore. $LOCKERS_SRC names a checkout.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <optional>

#include "support/process.h"
#include "support/temp_dir.h"

using namespace holdfast::testing;

namespace {

using Words = std::vector<std::string>;

/// The lead of each tool's words: the original first.
std::optional<std::vector<Words>> leads() {
  const char* source = std::getenv("LOCKERS_SRC");
  if (!source) return std::nullopt;
  return std::vector<Words>{
      {std::string(source) + "/semaphore.sh", "-l"}, {"semaphore", "-l"}, {"fair_semaphore"}};
}

constexpr const char* kNoOriginals = "needs LOCKERS_SRC, a checkout of the original lockers";

struct Meeting {
  TempDir dir;
  std::string semaphore = dir / "sem";
  Process one{kSleeper};
  Process two{kSleeper};
  Process three{kSleeper};

  Result ask(Words lead, const std::string& action, const Words& further = {}) const {
    lead.insert(lead.end(), {action, semaphore});
    lead.insert(lead.end(), further.begin(), further.end());
    return run(lead);
  }
  int acquire(const Words& lead, const std::string& max, const Process& who) const {
    return ask(lead, "acquire", {max, who.pid_text()}).code;
  }
  std::size_t owners(const Words& lead) const {
    const std::string out = ask(lead, "owners").out;
    return static_cast<std::size_t>(std::count(out.begin(), out.end(), '\n'));
  }
};

}  // namespace

TEST_CASE("the original semaphore and ours count each other's holders", "[compat]") {
  const auto tools = leads();
  if (!tools) SKIP_TEST(kNoOriginals);
  const Words& original = tools->front();
  for (const Words& ours : {tools->at(1), tools->at(2)}) {
    for (const bool is_original_first : {true, false}) {
      const Words& first = is_original_first ? original : ours;
      const Words& second = is_original_first ? ours : original;
      CAPTURE(first, second);
      const Meeting at;
      REQUIRE(at.acquire(first, "2", at.one) == 0);
      REQUIRE(at.acquire(second, "2", at.two) == 0);
      for (const Words& any : *tools) {
        CAPTURE(any);
        CHECK(at.acquire(any, "2", at.three) == 1);
        CHECK(at.acquire(any, "1", at.three) == 1);
        CHECK(at.owners(any) == 2);
        CHECK(at.ask(any, "slot", {at.one.pid_text()}).out ==
              at.ask(original, "slot", {at.one.pid_text()}).out);
        for (const char* slot : {"1", "2", "3"}) {
          CHECK(at.ask(any, "owner", {slot}).out == at.ask(original, "owner", {slot}).out);
        }
      }
      // each gives back what the other took
      CHECK(at.ask(second, "release", {at.one.pid_text()}).code == 0);
      CHECK(at.ask(second, "release", {at.one.pid_text()}).code == 19);
      CHECK(at.acquire(second, "2", at.three) == 0);
      CHECK(at.ask(first, "release", {at.two.pid_text()}).code == 0);
      CHECK(at.ask(first, "release", {at.three.pid_text()}).code == 0);
      CHECK(tree(at.dir.path()).empty());
    }
  }
}

TEST_CASE("the original semaphore and ours recover each other's dead", "[compat]") {
  const auto tools = leads();
  if (!tools) SKIP_TEST(kNoOriginals);
  const Words& original = tools->front();
  for (const Words& ours : {tools->at(1), tools->at(2)}) {
    for (const bool is_original_first : {true, false}) {
      const Words& holder = is_original_first ? original : ours;
      const Words& heir = is_original_first ? ours : original;
      CAPTURE(holder, heir);
      Meeting at;
      REQUIRE(at.acquire(holder, "1", at.one) == 0);
      REQUIRE(at.acquire(heir, "1", at.two) == 1);
      at.one.kill_and_wait();
      CHECK(at.acquire(heir, "1", at.two) == 0);
      CHECK(at.acquire(holder, "1", at.three) == 1);
      CHECK(at.ask(holder, "owner", {"1"}).out == run({"local_id", "uid", at.two.pid_text()}).out);
      CHECK(at.ask(heir, "release", {at.two.pid_text()}).code == 0);
      CHECK(tree(at.dir.path()).empty());
    }
  }
}

TEST_CASE("a line of ours does not disturb the original semaphore", "[compat]") {
  const auto tools = leads();
  if (!tools) SKIP_TEST(kNoOriginals);
  const Words& original = tools->front();
  const Meeting at;
  REQUIRE(at.acquire(original, "1", at.one) == 0);
  Process waiter(
      {"fair_semaphore", "--wait", "60", "acquire", at.semaphore, "1", at.two.pid_text()});
  REQUIRE(eventually([&] { return !run({"fair_semaphore", "queue", at.semaphore}).out.empty(); }));
  CHECK(at.owners(original) == 1);
  CHECK(at.acquire(original, "1", at.three) == 1);
  CHECK(at.ask(original, "release", {at.one.pid_text()}).code == 0);
  CHECK(waiter.wait() == 0);
  CHECK(at.ask(original, "release", {at.two.pid_text()}).code == 0);
  CHECK(tree(at.dir.path()).empty());
}
