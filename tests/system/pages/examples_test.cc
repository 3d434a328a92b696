/// What the manual and the README show is run, and its output compared.
///
/// A block whose first line begins with "$ " is a session: "$ " commands, each with "> " lines that
/// go on with it, then what it prints. With a host in its prompt ("host2$ ") it needs a cluster,
/// and is not run. Any other block is a script that must succeed. The blocks of one page share a
/// scratch folder. In shown output a number of four digits or more stands for any number, and
/// host1.example.org for the full name of this host.

#include <algorithm>
#include <boost/filesystem.hpp>
#include <catch2/catch.hpp>
#include <regex>

#include "manual.h"
#include "support/process.h"
#include "support/temp_dir.h"

using namespace holdfast;
using namespace holdfast::testing;

namespace {

struct Step {
  std::string command;
  std::string shown;
};

std::vector<Step> parse_session(const std::string& block) {
  std::vector<Step> steps;
  for (const std::string& line : split_lines(block)) {
    if (line.starts_with("$ ")) {
      steps.push_back({line.substr(2) + "\n", {}});
    } else if (line.starts_with("> ") && steps.back().shown.empty()) {
      steps.back().command += line.substr(2) + "\n";
    } else {
      steps.back().shown += line + "\n";
    }
  }
  return steps;
}

constexpr std::string_view kMark = "\001\n";

/// One shell for all steps, with a mark after what each prints that leaves $? alone.
std::string script_of(const std::vector<Step>& steps) {
  std::string script = "mark() { local code=$?; printf '\\001\\n'; return $code; }\n";
  for (const Step& step : steps) script += step.command + "mark\n";
  return script;
}

std::vector<std::string> split_at_marks(const std::string& out) {
  std::vector<std::string> parts;
  std::size_t from = 0;
  for (std::size_t at; (at = out.find(kMark, from)) != std::string::npos;
       from = at + kMark.size()) {
    parts.push_back(out.substr(from, at - from));
  }
  return parts;
}

bool looks_like(const std::string& printed, const std::string& shown) {
  static const std::regex kSpecial(R"([.*+?^$|()\[\]{}\\])");
  static const std::regex kLongNumber("\\d{4,}");
  const std::string literal = std::regex_replace(shown, kSpecial, "\\$&");
  return std::regex_match(printed, std::regex(std::regex_replace(literal, kLongNumber, "\\d+")));
}

constexpr std::string_view kShownHost = "host1.example.org";

/// Empty where this host has none.
std::string full_host_name() {
  return split_lines(shell("hostname --fqdn || echo").out).at(0);
}

/// The shown host stands for this one.
std::string as_shown_here(std::string shown) {
  const std::string host = full_host_name();
  for (std::size_t at = 0; (at = shown.find(kShownHost, at)) != std::string::npos;
       at += host.size()) {
    shown.replace(at, kShownHost.size(), host);
  }
  return shown;
}

bool names_hosts(const std::string& block) {
  return block.find(kShownHost) != std::string::npos ||
         block.find("lock_ssh") != std::string::npos ||
         block.find("semaphore_ssh") != std::string::npos;
}

bool needs_cluster(const std::string& block) {
  static const std::regex kPrompt(R"(\w+\$ )");
  return std::regex_search(block, kPrompt, std::regex_constants::match_continuous);
}

void check_session(const std::vector<Step>& steps, const RunOptions& options) {
  const Result result = shell(script_of(steps), options);
  const auto printed = split_at_marks(result.out);
  CAPTURE(result.err);
  REQUIRE(printed.size() == steps.size());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    INFO("$ " << steps[i].command << "printed:\n" << printed[i] << "shown:\n" << steps[i].shown);
    CHECK(looks_like(printed[i], as_shown_here(steps[i].shown)));
  }
}

void check_example(const std::string& block, const RunOptions& options) {
  CAPTURE(block);
  if (block.starts_with("$ ")) {
    check_session(parse_session(block), options);
  } else {
    const Result result = shell(block, options);
    CAPTURE(result.out, result.err);
    CHECK(result.code == 0);
  }
}

RunOptions in_scratch(const TempDir& scratch) {
  RunOptions options;
  options.cwd = scratch.path();
  options.env["TMPDIR"] = scratch.path();
  return options;
}

}  // namespace

TEST_CASE("the examples of each page do what they show", "[pages]") {
  const auto files = page_files();
  REQUIRE_FALSE(files.empty());
  for (const std::string& file : files) {
    DYNAMIC_SECTION(file) {
      const TempDir scratch;
      auto blocks = Page(file).examples();
      std::erase_if(blocks, needs_cluster);
      CHECK_FALSE(blocks.empty());
      if (std::any_of(blocks.begin(), blocks.end(), names_hosts) && full_host_name().empty()) {
        SKIP_TEST("this host has no full name");
      }
      for (const std::string& block : blocks) check_example(block, in_scratch(scratch));
      CHECK_FALSE(
          boost::filesystem::exists(scratch / "gc.lock"));  // the reader's folder stays clean
    }
  }
}

TEST_CASE("the tour of the README does what it shows", "[pages]") {
  const auto fences = fences_below(read_file(source_dir() + "/README.md"), "A tour of one minute");
  std::vector<Step> steps;
  for (const Fence& fence : fences) {
    if (fence.language == "sh") steps.push_back({fence.text, {}});
    if (fence.language == "text" && !steps.empty()) steps.back().shown += fence.text;
  }
  REQUIRE(steps.size() >= 3);
  const TempDir scratch;
  check_session(steps, in_scratch(scratch));
}

TEST_CASE("the function of the README runs commands under a lease, one at a time", "[pages]") {
  const auto fences =
      fences_below(read_file(source_dir() + "/README.md"), "One server for the whole lab");
  const auto function = std::find_if(fences.begin(), fences.end(),
                                     [](const Fence& fence) { return fence.language == "bash"; });
  REQUIRE(function != fences.end());
  const TempDir scratch;
  write_file(scratch / "function", function->text.substr(0, function->text.rfind("with_lease ")));
  const Result result = shell(R"(
    . ./function
    holdfastd --listen 127.0.0.1:0 --store sqlite:leases.db >says & server=$!
    until grep -q listening says; do sleep 0.1; done
    export HOLDFAST_URL=$(sed 's/.* //' says)
    for i in 1 2 3; do
        with_lease box sh -c 'mkdir in && echo "fence $FENCE" && sleep 0.2 && rmdir in' & all="$all $!"
    done
    wait $all
    echo word | with_lease box cat
    with_lease box sh -c 'exit 7' || echo "passed on: $?"
    curl -s "$HOLDFAST_URL/v1/claims/?status=active"; echo
    kill $server; wait $server
    with_lease box echo never || echo "no server: $?")",
                              in_scratch(scratch));
  CAPTURE(result.err);
  CHECK(result.out == "fence 1\nfence 2\nfence 3\nword\npassed on: 7\n[]\nno server: 1\n");
}

TEST_CASE("the C++ example of the README compiles with the headers of the library", "[pages]") {
  const auto fences = fences_below(read_file(source_dir() + "/README.md"), "From C++");
  const auto example = std::find_if(fences.begin(), fences.end(),
                                    [](const Fence& fence) { return fence.language == "cpp"; });
  REQUIRE(example != fences.end());
  const TempDir scratch;
  write_file(scratch / "backup.cc", example->text);
  const Result compiled = run({HOLDFAST_CXX, "-std=c++20", "-fsyntax-only", "-I",
                               source_dir() + "/src", scratch / "backup.cc"});
  CAPTURE(compiled.err);
  CHECK(compiled.code == 0);
}

TEST_CASE("a session on another host is told from one on this host", "[pages]") {
  CHECK(needs_cluster("host2$ ssh_id uid 1\n"));
  CHECK_FALSE(needs_cluster("$ echo host2$ x\n"));
  CHECK_FALSE(needs_cluster("until lock_ssh lock gc.lock $$; do\nhost2$ \n"));
}

TEST_CASE("a session that prints something else than shown is found out", "[pages]") {
  const auto steps = parse_session("$ echo 12345:x\n4242:x\n$ false\n$ echo $?\n1\n");
  REQUIRE(steps.size() == 3);
  const auto printed = split_at_marks(shell(script_of(steps)).out);
  REQUIRE(printed.size() == 3);
  CHECK(looks_like(printed[0], steps[0].shown));
  CHECK(looks_like(printed[2], steps[2].shown));  // the mark leaves $? alone
  CHECK_FALSE(looks_like("12345:y\n", steps[0].shown));
  CHECK_FALSE(looks_like("", steps[0].shown));
  CHECK_FALSE(looks_like("2\n", steps[2].shown));
}

TEST_CASE("the README's way with the shell package's k8s_id.sh locks and recovers", "[pages]") {
  const auto fences =
      fences_below(read_file(source_dir() + "/README.md"), "Coming from the shell package");
  const auto script = std::find_if(fences.begin(), fences.end(), [](const Fence& fence) {
    return fence.text.find("k8s_id.sh") != std::string::npos;
  });
  REQUIRE(script != fences.end());

  // A stand-in: ids of pods, whose processes run on this host.
  const TempDir dir;
  write_file(dir / "k8s_id.sh",
             "#!/bin/sh\n"
             "pid=${2##*:}\n"
             "case $1 in\n"
             "uid) kill -0 \"$2\" 2>/dev/null && echo \"default:pod-7:$2\" ;;\n"
             "pid) echo \"$pid\" ;;\n"
             "hostid) echo default:pod-7 ;;\n"
             "is_valid_uid) case $2 in *:*:*) ;; *) exit 1 ;; esac ;;\n"
             "is_stale) ! kill -0 \"$pid\" 2>/dev/null ;;\n"
             "*) exit 10 ;;\n"
             "esac\n");
  REQUIRE(run({"chmod", "+x", dir / "k8s_id.sh"}).code == 0);
  const std::string shared = "/shared/";
  std::string text = "PATH=" + dir.path() + ":$PATH\n" + script->text;
  for (std::size_t at; (at = text.find(shared)) != std::string::npos;) {
    text.replace(at, shared.size(), dir.path() + "/");
  }
  const Result ours = shell("set -e\n" + text);
  CAPTURE(text, ours.err);
  CHECK(ours.code == 0);
  CHECK(ours.out == "mine\ndefault:pod-7\n");
  CHECK(!boost::filesystem::exists(dir / "gc.lock/owner"));

  Process dead(kSleeper);
  const std::string locker = "hostpid_lock --idhelper k8s_id.sh ";
  const std::string path = "PATH=" + dir.path() + ":$PATH; ";
  const std::string lock = dir / "gc.lock";
  REQUIRE(shell(path + locker + "lock " + lock + " " + dead.pid_text()).code == 0);
  CHECK(shell(path + locker + "lock " + lock + " $$").code == 1);
  CHECK(shell(path + locker + "is_stale " + lock).code == 1);
  dead.kill_and_wait();
  CHECK(shell(path + locker + "is_stale " + lock).code == 0);
  CHECK(shell(path + locker + "lock_check " + lock + " $$").code == 0);
}
