/// The hosts themselves: without these promises the other tests here would show nothing.
#include "system/cluster/bed.h"

#include <boost/filesystem.hpp>
#include <catch2/catch.hpp>
#include <csignal>

using namespace holdfast::testing;

namespace {

const std::string kAsk =
    "hostname --fqdn; cat /proc/sys/kernel/random/boot_id; awk '/^btime/{print $2}' /proc/stat";

/// What the host says about itself when it is asked over ssh: full name, boot id, boot time.
Words ask(const Bed& bed, const std::string& from, const std::string& host) {
  const Result answer = bed.run(from, {"ssh", "-o", "ConnectTimeout=20", host + ".bed.test", kAsk});
  INFO(answer.err);
  REQUIRE(answer.code == 0);
  return lines_of(answer.out);
}

int knock(const Bed& bed, const std::string& from, const std::string& host) {
  return bed.run(from, {"ssh", "-o", "ConnectTimeout=2", host + ".bed.test", "true"}).code;
}

}  // namespace

TEST_CASE("hosts know each other by full name and are machines of their own", "[cluster]") {
  NEEDS_BED();
  const Bed bed(3);
  const auto first = ask(bed, "host2", "host1");
  const auto third = ask(bed, "host2", "host3");
  CHECK(first.at(0) == "host1.bed.test");
  CHECK(third.at(0) == "host3.bed.test");
  CHECK(first.at(1) != third.at(1));
  CHECK(first.at(2) != third.at(2));
  CHECK(bed.run("host1", {"hostname"}).out == "host1\n");
  // as somebody else
  const Result user = bed.script("host2", "ssh user@host3.bed.test 'id -u; echo $HOME'");
  CHECK(user.out == "1000\n" + bed.own("host3.bed.test", "home/user") + "\n");

  const auto guest = bed.sleeper("host1");
  const Words look = {"pgrep", "-fx", "/bin/sleep 1000"};
  CHECK(bed.run("host1", look).out == guest->pid() + "\n");
  CHECK(bed.run("host2", look).code == 1);
  bed.script("host1", "echo hello > greeting");
  CHECK(bed.script("host3", "cat greeting").out == "hello\n");
  CHECK(read_file(bed.shared("greeting")) == "hello\n");
}

TEST_CASE("a host that is cut off or paused is silent and goes on afterwards", "[cluster]") {
  NEEDS_BED();
  const bool is_cut = GENERATE(true, false);
  const Bed bed(2);
  const auto guest = bed.sleeper("host1");
  const auto before = ask(bed, "host2", "host1");
  is_cut ? bed.cut("host1") : bed.pause("host1");
  CHECK(knock(bed, "host2", "host1") == 255);
  is_cut ? bed.heal("host1") : bed.resume("host1");
  CHECK(ask(bed, "host2", "host1").at(1) == before.at(1));
  CHECK(bed.run("host1", {"test", "-d", "/proc/" + guest->pid()}).code == 0);
}

TEST_CASE("a host that was off has another boot id and a later boot time", "[cluster]") {
  NEEDS_BED();
  const Bed bed(2);
  const auto before = ask(bed, "host2", "host1");
  auto guest = bed.sleeper("host1");
  bed.power_off("host1");
  CHECK(guest->wait() == 128 + SIGKILL);
  CHECK(knock(bed, "host2", "host1") == 255);
  CHECK(bed.run("host1", {"true"}).code == 2);
  bed.power_on("host1");
  const auto after = ask(bed, "host2", "host1");
  CHECK(after.at(0) == before.at(0));
  CHECK(after.at(1) != before.at(1));
  CHECK(std::stol(after.at(2)) > std::stol(before.at(2)) + 2);
}

TEST_CASE("hosts may share a first name and beds may share a machine", "[cluster]") {
  NEEDS_BED();
  const Bed twins({"host1.one.test", "host1.two.test"});
  const Bed other({"host1.one.test"});
  CHECK(twins.run("host1.two.test", {"ssh", "host1.one.test", "hostname --fqdn; hostname"}).out ==
        "host1.one.test\nhost1\n");
  CHECK(twins.run("host1.two.test", {"hostname", "--fqdn"}).out == "host1.two.test\n");
  CHECK(twins.run("host1", {"true"}).code == 2);
  CHECK(other.run("host1", {"hostname", "--fqdn"}).out == "host1.one.test\n");
}

TEST_CASE("of hosts whose maker was killed nothing is left", "[cluster]") {
  NEEDS_BED();
  const std::string killed = GENERATE("maker", "keeper");
  const TempDir dir;
  const std::string cluster = source_dir() + "/tests/system/cluster/cluster";
  const std::string bed = dir / "bed";
  Process maker({"/bin/bash", "-c",
                 "\"$0\" \"$1\" up host1.bed.test host2.bed.test && \"$0\" \"$1\" pause host2 && "
                 "touch \"$2\"; sleep 1000",
                 cluster, bed, dir / "made"});
  REQUIRE(eventually([&] { return boost::filesystem::exists(dir / "made"); },
                     std::chrono::seconds(60)));
  const std::string init = read_file(bed + "/hosts/host1.bed.test/init");
  const std::string keeper = read_file(bed + "/keeper");
  const auto is_running = [](const std::string& pid) {
    return boost::filesystem::exists("/proc/" + pid.substr(0, pid.size() - 1) + "/exe");
  };
  CHECK(is_running(init));
  if (killed == "maker") {
    maker.kill_and_wait();
    CHECK(eventually([&] { return !boost::filesystem::exists(bed); }, std::chrono::seconds(60)));
    CHECK(eventually([&] { return !is_running(keeper); }));  // the folder goes before it does
  } else {
    kill(std::stoi(keeper), SIGKILL);
  }
  CHECK(eventually([&] { return !is_running(init); }, std::chrono::seconds(60)));
  CHECK(run({cluster, bed, "down"}).code == 0);
  CHECK_FALSE(boost::filesystem::exists(bed));
  CHECK(run({cluster, bed, "down"}).code == 0);
  CHECK(shell("ls -d $(awk '$3 == \"cgroup2\" {print $2}' /proc/mounts)/holdfast." +
              keeper.substr(0, keeper.size() - 1) + ".*")
            .code != 0);
}
