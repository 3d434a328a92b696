/// fast_lock as a shell user meets it.

#include <sys/stat.h>

#include "session.h"

using namespace holdfast::testing;
using Catch::Contains;
using Catch::EndsWith;
using Catch::Matches;
using Catch::StartsWith;

namespace {

void propose(const Session& at, const std::string& lock, const std::string& id) {
  at.must("mkdir -p '" + lock + "/build/" + id + "/owner'; touch '" + lock + "/build/" + id +
          "/owner/" + id + "'");
}

void make_old(const Session& at, const std::string& path) {
  at.must("find '" + path + "' -depth -exec touch -d '1 hour ago' {} +");
}

const Tree kHeldByA = {"L/", "L/owner/", "L/owner/a"};

unsigned mode_of(const std::string& path) {
  struct stat st {};
  REQUIRE(lstat(path.c_str(), &st) == 0);
  return st.st_mode & 0777u;
}

}  // namespace

TEST_CASE("a free lock is taken with 0 and in silence", "[e2e]") {
  const Session at;
  CHECK(at.run({"fast_lock", "lock", "L", "a"}) == kSilentYes);
  CHECK(at.tree() == kHeldByA);
}

TEST_CASE("a second id is refused with 1 and leaves no trace", "[e2e]") {
  const Session at;
  at.must("fast_lock lock L a");
  CHECK(at.run({"fast_lock", "lock", "L", "b"}) == kSilentNo);
  CHECK(at.tree() == kHeldByA);
}

TEST_CASE("an id that holds already is told so with 20 and still holds", "[e2e]") {
  const Session at;
  at.must("fast_lock lock L a");
  CHECK(at.run({"fast_lock", "lock", "L", "a"}) ==
        Result{20, "", " ERROR - L already locked by a\n"});
  CHECK(at.tree() == kHeldByA);
}

TEST_CASE("an unlock answers 0 and removes the whole lock", "[e2e]") {
  const Session at;
  at.must("fast_lock lock L a");
  CHECK(at.run({"fast_lock", "unlock", "L", "a"}) == kSilentYes);
  CHECK(at.tree().empty());
}

TEST_CASE("an unlock by an id that does not hold answers 1 with a message", "[e2e]") {
  const Session at;
  at.must("fast_lock lock L a");
  CHECK(at.run({"fast_lock", "unlock", "L", "b"}) ==
        Result{1, "", " ERROR - L is not locked by b\n"});
  CHECK(at.tree() == kHeldByA);
}

TEST_CASE("an unlock of a free lock answers 1 with a message", "[e2e]") {
  const Session at;
  CHECK(at.run({"fast_lock", "unlock", "L", "a"}) ==
        Result{1, "", " ERROR - L is not locked by a\n"});
  CHECK(at.tree().empty());
}

TEST_CASE("the next id gets the lock after an unlock", "[e2e]") {
  const Session at;
  at.must("fast_lock lock L a; fast_lock unlock L a");
  CHECK(at.run({"fast_lock", "lock", "L", "b"}) == kSilentYes);
  CHECK(at.run({"fast_lock", "owner", "L"}) == Result{0, "b\n", ""});
}

TEST_CASE("owner prints the holder and nothing for a free lock", "[e2e]") {
  const Session at;
  CHECK(at.run({"fast_lock", "owner", "L"}) == kSilentYes);
  at.must("fast_lock lock L a");
  CHECK(at.run({"fast_lock", "owner", "L"}) == Result{0, "a\n", ""});
  CHECK(at.tree() == kHeldByA);
}

TEST_CASE("is_mine is 0 for the holder and 1 for anybody else", "[e2e]") {
  const Session at;
  CHECK(at.run({"fast_lock", "is_mine", "L", "a"}) == kSilentNo);
  at.must("fast_lock lock L a");
  CHECK(at.run({"fast_lock", "is_mine", "L", "a"}) == kSilentYes);
  CHECK(at.run({"fast_lock", "is_mine", "L", "b"}) == kSilentNo);
}

TEST_CASE("ids_in_use lists holders and proposers sorted and once", "[e2e]") {
  const Session at;
  CHECK(at.run({"fast_lock", "ids_in_use", "L"}) == kSilentYes);
  at.must("fast_lock lock L m");
  propose(at, "L", "z");
  propose(at, "L", "c");
  propose(at, "L", "m");
  CHECK(at.run({"fast_lock", "ids_in_use", "L"}) == Result{0, "c\nm\nz\n", ""});
}

TEST_CASE("ids_in_use does not list proposals on their way out", "[e2e]") {
  const Session at;
  at.must("mkdir -p L/build/.gone.1; touch L/build/.gone.1/a");
  CHECK(at.run({"fast_lock", "ids_in_use", "L"}) == kSilentYes);
}

TEST_CASE("clean_stale_ids frees what the ids hold and what they propose", "[e2e]") {
  const Session at;
  at.must("fast_lock lock L a");
  propose(at, "L", "b");
  propose(at, "L", "c");
  CHECK(at.run({"fast_lock", "clean_stale_ids", "L", "a", "b", "unknown"}) == kSilentYes);
  CHECK(at.tree() == Tree{"L/", "L/build/", "L/build/c/", "L/build/c/owner/", "L/build/c/owner/c"});
}

TEST_CASE("clean_stale_ids of all ids leaves nothing", "[e2e]") {
  const Session at;
  at.must("fast_lock lock L a");
  propose(at, "L", "a");
  CHECK(at.run({"fast_lock", "clean_stale_ids", "L", "a"}) == kSilentYes);
  CHECK(at.tree().empty());
}

TEST_CASE("clean_stale_ids without an id answers 0 and keeps the holder", "[e2e]") {
  const Session at;
  at.must("fast_lock lock L a");
  CHECK(at.run({"fast_lock", "clean_stale_ids", "L"}) == kSilentYes);
  CHECK(at.tree() == kHeldByA);
}

TEST_CASE("clean_stale_ids of a stranger keeps the holder", "[e2e]") {
  const Session at;
  at.must("fast_lock lock L a");
  CHECK(at.run({"fast_lock", "clean_stale_ids", "L", "b"}) == kSilentYes);
  CHECK(at.tree() == kHeldByA);
}

TEST_CASE("missing or empty words are a usage error that makes nothing", "[e2e]") {
  const auto words = GENERATE(values<std::vector<std::string>>({{},
                                                                {""},
                                                                {"lock"},
                                                                {"lock", ""},
                                                                {"lock", "L"},
                                                                {"lock", "L", ""},
                                                                {"lock", "", "a"},
                                                                {"unlock", "L"},
                                                                {"unlock", "L", ""},
                                                                {"owner"},
                                                                {"owner", ""},
                                                                {"is_mine", "L"},
                                                                {"is_mine", "L", ""},
                                                                {"ids_in_use"},
                                                                {"clean_stale_ids"},
                                                                {"clean"}}));
  const Session at;
  std::vector<std::string> command = {"fast_lock"};
  command.insert(command.end(), words.begin(), words.end());
  CAPTURE(command);
  check_usage(at.run(command));
  CHECK(at.tree().empty());
}

TEST_CASE("an unknown action is a usage error and runs no program", "[e2e]") {
  const Session at;
  check_usage(at.run({"fast_lock", "touch", "L", "a"}), "touch");
  check_usage(at.run({"fast_lock", "clean_proposal", "L", "a"}), "clean_proposal");
  CHECK(at.tree().empty());
}

TEST_CASE("an unknown option is a usage error that makes nothing", "[e2e]") {
  const std::string option = GENERATE("-x", "--strict", "--", "-", "--inf", "-i", "--lock");
  const Session at;
  CAPTURE(option);
  check_usage(at.run({"fast_lock", option, "lock", "L", "a"}));
  CHECK(at.tree().empty());
}

TEST_CASE("the help of fast_lock shows each action", "[e2e]") {
  const Result result = run({"fast_lock", "--help"});
  for (const char* action :
       {"unlock", "owner", "is_mine", "ids_in_use", "clean_stale_ids", "clean <"}) {
    CHECK_THAT(result.out, Contains(std::string("fast_lock ") + action));
  }
}

TEST_CASE("the option --version answers on stdout with 0", "[e2e]") {
  const Result result = run({"fast_lock", "--version"});
  CHECK(result.code == 0);
  CHECK(result.err.empty());
  CHECK_THAT(result.out, Matches("fast_lock \\(holdfast\\) \\d+\\.\\d+\\.\\d+\n"));
}

TEST_CASE("at info level each event is a plain line on stderr", "[e2e]") {
  const std::string option = GENERATE("-di", "--info");
  const Session at;
  CHECK(at.run({"fast_lock", option, "lock", "L", "a"}) == Result{0, "", "L locked by a\n"});
  const Result refused = at.run({"fast_lock", option, "lock", "L", "b"});
  CHECK(refused.code == 1);
  CHECK(refused.out.empty());
  CHECK_THAT(refused.err, StartsWith("L failed to lock for b\n"));
  CHECK(at.run({"fast_lock", option, "owner", "L"}) == Result{0, "a\n", ""});
  CHECK(at.run({"fast_lock", option, "unlock", "L", "a"}) == Result{0, "", "L unlocked by a\n"});
}

TEST_CASE("at info level an error keeps its form", "[e2e]") {
  const Session at;
  CHECK(at.run({"fast_lock", "--info", "unlock", "L", "a"}) ==
        Result{1, "", " ERROR - L is not locked by a\n"});
}

TEST_CASE("at debug level every line begins with the date", "[e2e]") {
  const std::string option = GENERATE("-d", "--debug");
  const Session at;
  const Result locked = at.run({"fast_lock", option, "lock", "L", "a"});
  CHECK(locked.code == 0);
  CHECK(locked.out.empty());
  CHECK_THAT(locked.err, Matches("(" + kDate + " [^\n]+\n)+"));
  CHECK_THAT(locked.err, EndsWith(" L locked by a\n"));
  CHECK_THAT(at.run({"fast_lock", option, "lock", "L", "b"}).err,
             Matches("(" + kDate + " [^\n]+\n)+"));
  const Result again = at.run({"fast_lock", option, "lock", "L", "a"});
  CHECK(again.code == 20);
  CHECK_THAT(again.err, Matches("(" + kDate + " [^\n]+\n)+"));
  CHECK_THAT(again.err, EndsWith("  ERROR - L already locked by a\n"));
  CHECK_THAT(at.run({"fast_lock", option, "unlock", "L", "a"}).err,
             Matches("(" + kDate + " [^\n]+\n)+"));
}

TEST_CASE("the variable DEBUG sets the level as the options do", "[e2e]") {
  const auto [value, expected] = GENERATE(table<std::string, std::string>(
      {{"INFO", "L locked by a\n"},
       {"DEBUG", "(" + kDate + " [^\n]+\n)*" + kDate + " L locked by a\n"},
       {"", ""},
       {"1", ""},
       {"info", ""}}));
  const Session at;
  CAPTURE(value);
  const Result result = at.run({"fast_lock", "lock", "L", "a"}, {{"DEBUG", value}});
  CHECK(result.code == 0);
  CHECK_THAT(result.err, Matches(expected));
}

TEST_CASE("an option beats the variable DEBUG", "[e2e]") {
  const Session at;
  CHECK(at.run({"fast_lock", "--info", "lock", "L", "a"}, {{"DEBUG", "DEBUG"}}) ==
        Result{0, "", "L locked by a\n"});
}

TEST_CASE("other variables of the shell lockers are ignored", "[e2e]") {
  const Session at;
  const Env variables = {{"ACTION", "unlock"},       {"BASE", "M"},      {"CHECK_FAIL", "touch x"},
                         {"LOCKER_ARGS", "--debug"}, {"SEMAPHORE", "S"}, {"NOTIFIER", "touch y"}};
  CHECK(at.run({"fast_lock", "lock", "L", "a"}, variables) == kSilentYes);
  CHECK(at.tree() == kHeldByA);
}

TEST_CASE("the last of several level options counts", "[e2e]") {
  const Session at;
  CHECK(at.run({"fast_lock", "-d", "--debug", "-di", "lock", "L", "a"}) ==
        Result{0, "", "L locked by a\n"});
}

TEST_CASE("options end at the first word that is none", "[e2e]") {
  const Session at;
  CHECK(at.run({"fast_lock", "lock", "--lock", "--debug"}) == kSilentYes);
  CHECK(at.tree() == Tree{"--lock/", "--lock/owner/", "--lock/owner/--debug"});
  CHECK(at.run({"fast_lock", "owner", "--lock"}) == Result{0, "--debug\n", ""});
  CHECK(at.run({"fast_lock", "unlock", "--lock", "--debug"}) == kSilentYes);
  CHECK(at.tree().empty());
}

TEST_CASE("words with blanks and dashes are ordinary locks and ids", "[e2e][H4]") {
  const auto [lock, id] = GENERATE(table<std::string, std::string>({
      {"--help x", "a"},
      {"L", "--help 1"},
      {"--help x", "--help 1"},
      {"a lock", " a  b "},
      {"-x", "-u"},
      {"--", "--"},
      {"L", "a\tb"},
      {"L", "*"},
      {"L", "$(touch x)"},
      {"L", "\xC3\xA4\xF0\x9F\x94\x92"},
      {"L", "\xFF\xFE"},
      {"L", "owner"},
      {"L", "build"},
      {"L", "{}"},
      {"L", "host.example.org:12:34:56"},
      {"owner", "owner"},
  }));
  const Session at;
  CAPTURE(lock, id);
  CHECK(at.run({"fast_lock", "lock", lock, id}) == kSilentYes);
  CHECK(at.tree() == Tree{lock + "/", lock + "/owner/", lock + "/owner/" + id});
  CHECK(at.run({"fast_lock", "owner", lock}) == Result{0, id + "\n", ""});
  CHECK(at.run({"fast_lock", "ids_in_use", lock}) == Result{0, id + "\n", ""});
  CHECK(at.run({"fast_lock", "is_mine", lock, id}) == kSilentYes);
  CHECK(at.run({"fast_lock", "lock", lock, id}).code == 20);
  CHECK(at.run({"fast_lock", "lock", lock, "rival"}) == kSilentNo);
  CHECK(at.run({"fast_lock", "unlock", lock, id}) == kSilentYes);
  CHECK(at.tree().empty());
}

TEST_CASE("an id of 255 bytes works and one of 256 is a usage error", "[e2e]") {
  const Session at;
  const std::string longest(255, 'x');
  CHECK(at.run({"fast_lock", "lock", "L", longest}) == kSilentYes);
  CHECK(at.run({"fast_lock", "owner", "L"}) == Result{0, longest + "\n", ""});
  CHECK(at.run({"fast_lock", "unlock", "L", longest}) == kSilentYes);
  CHECK(at.tree().empty());
  check_usage(at.run({"fast_lock", "lock", "L", longest + "x"}), "255");
  CHECK(at.tree().empty());
}

TEST_CASE("ids that cannot be one file name are a usage error for every action", "[e2e]") {
  const std::string id = GENERATE("a/b", "/", "a/", "/a", ".", "..", "../x", "a\nb", "\n");
  const std::string action = GENERATE("lock", "unlock", "is_mine", "clean_stale_ids");
  const Session at;
  at.must("fast_lock lock L a; touch x");
  CAPTURE(id, action);
  check_usage(at.run({"fast_lock", action, "L", id}));
  CHECK(at.tree() == Tree{"L/", "L/owner/", "L/owner/a", "x"});
}

TEST_CASE("an id with a leading dot is visible to everybody", "[e2e]") {
  const Session at;
  CHECK(at.run({"fast_lock", "lock", "L", ".a"}) == kSilentYes);
  CHECK(at.tree() == Tree{"L/", "L/owner/", "L/owner/.a"});
  CHECK(at.run({"fast_lock", "owner", "L"}) == Result{0, ".a\n", ""});
  CHECK(at.run({"fast_lock", "is_mine", "L", ".a"}) == kSilentYes);
  CHECK(at.run({"fast_lock", "ids_in_use", "L"}) == Result{0, ".a\n", ""});
  CHECK(at.run({"fast_lock", "lock", "L", "b"}) == kSilentNo);
  CHECK(at.run({"fast_lock", "clean_stale_ids", "L", ".a"}) == kSilentYes);
  CHECK(at.tree().empty());
}

TEST_CASE("names that the layout and NFS keep for themselves are no ids", "[e2e]") {
  const std::string id = GENERATE(".gone.1", ".nfs000001");
  const Session at;
  check_usage(at.run({"fast_lock", "lock", "L", id}), id);
  CHECK(at.tree().empty());
}

TEST_CASE("one lock has many spellings", "[e2e]") {
  const std::string spelling = GENERATE("L/", "L//", "./L", "././L/", "M/../L");
  const Session at;
  CAPTURE(spelling);
  at.must("mkdir M; fast_lock lock L a");
  CHECK(at.run({"fast_lock", "owner", spelling}) == Result{0, "a\n", ""});
  CHECK(at.run({"fast_lock", "lock", spelling, "b"}) == kSilentNo);
  CHECK(at.run({"fast_lock", "unlock", spelling, "a"}) == kSilentYes);
  CHECK(at.tree() == Tree{"M/"});
  CHECK(at.run({"fast_lock", "lock", spelling, "b"}) == kSilentYes);
  CHECK(at.run({"fast_lock", "owner", at.path("L")}) == Result{0, "b\n", ""});
}

TEST_CASE("missing parents are made and stay after the unlock", "[e2e]") {
  const Session at;
  const std::string lock = GENERATE("p/q r/L", "p/q r/L/", "./p//q r/L");
  CHECK(at.run({"fast_lock", "lock", lock, "a"}) == kSilentYes);
  CHECK(at.tree() == Tree{"p/", "p/q r/", "p/q r/L/", "p/q r/L/owner/", "p/q r/L/owner/a"});
  CHECK(at.run({"fast_lock", "unlock", lock, "a"}) == kSilentYes);
  CHECK(at.tree() == Tree{"p/", "p/q r/"});
}

TEST_CASE("looking at a lock makes nothing", "[e2e]") {
  const std::string action =
      GENERATE("owner", "is_mine", "ids_in_use", "unlock", "clean_stale_ids");
  const Session at;
  (void)at.run({"fast_lock", action, "p/L", "a"});
  CHECK(at.tree().empty());
}

TEST_CASE("folders and the leaf have the umask's modes", "[e2e]") {
  const auto [mask, folder, leaf] = GENERATE(table<std::string, unsigned, unsigned>(
      {{"000", 0777, 0666}, {"022", 0755, 0644}, {"077", 0700, 0600}}));
  const Session at;
  at.must("umask " + mask + "; fast_lock lock p/L a");
  CHECK(mode_of(at.path("p")) == folder);
  CHECK(mode_of(at.path("p/L")) == folder);
  CHECK(mode_of(at.path("p/L/owner")) == folder);
  CHECK(mode_of(at.path("p/L/owner/a")) == leaf);
}

TEST_CASE("the leaf holds one line that says who took it", "[e2e]") {
  const Session at;
  REQUIRE(at.run({"fast_lock", "lock", "L", "a"}, {{"LOGNAME", "anna"}}).code == 0);
  const std::string record = read_file(at.path("L/owner/a"));
  CHECK_THAT(record, Matches("\\{\"v\":1,\"host\":\"[^\"]+\".*\"nonce\":\"[0-9a-f]{32}\".*\\}\n"));
  CHECK_THAT(record, Contains("\"user\":\"anna\""));
}

TEST_CASE("an empty owner folder left by a crash is taken by the next", "[e2e]") {
  const Session at;
  at.must("mkdir -p L/owner");
  CHECK(at.run({"fast_lock", "owner", "L"}) == kSilentYes);
  CHECK(at.run({"fast_lock", "lock", "L", "a"}) == kSilentYes);
  CHECK(at.tree() == kHeldByA);
}

TEST_CASE("what an earlier attempt of the same id left behind does not hinder it", "[e2e]") {
  const std::string remains = GENERATE("mkdir -p L/build/a/owner", "mkdir -p L/build/a",
                                       "mkdir -p L/build/a/owner; touch L/build/a/owner/a",
                                       "mkdir -p L/build/a/owner/a", "mkdir -p L/build/.gone.7/a");
  const Session at;
  at.must(remains);
  CAPTURE(remains);
  CHECK(at.run({"fast_lock", "lock", "L", "a"}) == kSilentYes);
  const Tree left = at.tree();
  CHECK(std::count(left.begin(), left.end(), "L/owner/a") == 1);
  CHECK(std::count(left.begin(), left.end(), "L/build/a/") == 0);
}

TEST_CASE("a lock taken by the shell layout is a lock", "[e2e]") {
  const Session at;
  at.must("mkdir -p L/owner; touch L/owner/shell");
  CHECK(at.run({"fast_lock", "lock", "L", "a"}) == kSilentNo);
  CHECK(at.run({"fast_lock", "lock", "L", "shell"}) ==
        Result{20, "", " ERROR - L already locked by shell\n"});
  CHECK(at.run({"fast_lock", "owner", "L"}) == Result{0, "shell\n", ""});
  CHECK(at.run({"fast_lock", "unlock", "L", "shell"}) == kSilentYes);
  CHECK(at.tree().empty());
}

TEST_CASE("a rival's proposal survives lock and unlock", "[e2e]") {
  const Session at;
  propose(at, "L", "rival");
  const Tree before = at.tree();
  CHECK(at.run({"fast_lock", "lock", "L", "a"}) == kSilentYes);
  CHECK(at.run({"fast_lock", "unlock", "L", "a"}) == kSilentYes);
  CHECK(at.tree() == before);
}

TEST_CASE("of many tasks under one id exactly one gets the lock", "[e2e]") {
  const Session at;
  for (int round = 0; round < 10; ++round) {
    const Result codes = at.shell(
        "for i in 1 2 3 4 5 6; do { fast_lock lock L same 2>/dev/null; echo $?; } & done; wait");
    INFO(codes);
    CHECK(std::count(codes.out.begin(), codes.out.end(), '\n') == 6);
    CHECK_THAT("\n" + codes.out, Matches("\n(1\n|20\n)*0\n(1\n|20\n)*"));
    REQUIRE(at.tree() == Tree{"L/", "L/owner/", "L/owner/same"});
    at.must("fast_lock unlock L same");
  }
}

TEST_CASE("of many ids exactly one gets the lock", "[e2e]") {
  const Session at;
  for (int round = 0; round < 10; ++round) {
    const Result codes =
        at.shell("for i in 1 2 3 4 5 6; do { fast_lock lock L id$i; echo $?; } & done; wait");
    INFO(codes);
    CHECK(codes.err.empty());
    CHECK_THAT("\n" + codes.out, Matches("\n(1\n)*0\n(1\n)*"));
    at.must("fast_lock unlock L \"$(fast_lock owner L)\"");
    REQUIRE(at.tree().empty());
  }
}

TEST_CASE("a refusal at info level says who holds it since when and where", "[e2e]") {
  const Session at;
  at.must("export LOGNAME=anna; fast_lock lock L the-holder");
  const Result refused = at.run({"fast_lock", "--info", "lock", "L", "b"});
  CHECK(refused.code == 1);
  CHECK_THAT(refused.err, Matches("L failed to lock for b\nL is held by [^\n]*\n"));
  CHECK_THAT(refused.err, Contains("the-holder"));
  CHECK_THAT(refused.err, Contains("(LOGNAME anna) on "));
  CHECK_THAT(refused.err,
             Matches("[^]* since \\d{4}-\\d\\d-\\d\\d[T ]\\d\\d:\\d\\d:\\d\\d[^\n]*\n"));
}

TEST_CASE("a refusal by a holder without a record names its id", "[e2e]") {
  const Session at;
  at.must("mkdir -p L/owner; touch L/owner/shell");
  CHECK(at.run({"fast_lock", "--info", "lock", "L", "b"}) ==
        Result{1, "", "L failed to lock for b\nL is held by shell, who left no record\n"});
}

TEST_CASE("a lock made of folders works through its whole life", "[e2e]") {
  const Session at;
  CHECK(at.run({"fast_lock", "--dir-leaf", "lock", "L", "a"}) == kSilentYes);
  CHECK(at.tree() == Tree{"L/", "L/owner/", "L/owner/a/"});
  CHECK(at.run({"fast_lock", "owner", "L"}) == Result{0, "a\n", ""});
  CHECK(at.run({"fast_lock", "is_mine", "L", "a"}) == kSilentYes);
  CHECK(at.run({"fast_lock", "is_mine", "L", "b"}) == kSilentNo);
  CHECK(at.run({"fast_lock", "ids_in_use", "L"}) == Result{0, "a\n", ""});
  CHECK(at.run({"fast_lock", "--dir-leaf", "lock", "L", "a"}) ==
        Result{20, "", " ERROR - L already locked by a\n"});
  CHECK(at.run({"fast_lock", "--dir-leaf", "lock", "L", "b"}) == kSilentNo);
  CHECK(at.run({"fast_lock", "clean", "L"}) == kSilentNo);
  CHECK(at.tree() == Tree{"L/", "L/owner/", "L/owner/a/"});
  CHECK(at.run({"fast_lock", "unlock", "L", "a"}) == kSilentYes);
  CHECK(at.tree().empty());
}

TEST_CASE("leaves of both kinds keep each other out", "[e2e]") {
  const auto [first, second] =
      GENERATE(table<std::string, std::string>({{"--dir-leaf", "-di"}, {"-di", "--dir-leaf"}}));
  const Session at;
  REQUIRE(at.run({"fast_lock", first, "lock", "L", "a"}).code == 0);
  const Tree held = at.tree();
  CHECK(at.run({"fast_lock", second, "lock", "L", "b"}).code == 1);
  CHECK(at.run({"fast_lock", second, "lock", "L", "a"}).code == 20);
  CHECK(at.tree() == held);
  CHECK(at.run({"fast_lock", "unlock", "L", "a"}).code == 0);
  CHECK(at.tree().empty());
}

TEST_CASE("clean_stale_ids removes folder leaves too", "[e2e]") {
  const Session at;
  at.must("fast_lock --dir-leaf lock L a; mkdir -p L/build/b/owner/b");
  CHECK(at.run({"fast_lock", "clean_stale_ids", "L", "a", "b"}) == kSilentYes);
  CHECK(at.tree().empty());
}

TEST_CASE("clean answers 0 for a free lock and 1 for a held one", "[e2e]") {
  const Session at;
  CHECK(at.run({"fast_lock", "clean", "L"}) == kSilentYes);
  CHECK(at.tree().empty());
  at.must("fast_lock lock L a");
  CHECK(at.run({"fast_lock", "clean", "L"}) == kSilentNo);
  CHECK(at.run({"fast_lock", "--older-than", "0", "clean", "L"}) == kSilentNo);
  CHECK(at.tree() == kHeldByA);
}

TEST_CASE("clean removes what belongs to nobody and is done after once", "[e2e]") {
  const std::string remains = GENERATE(
      "mkdir -p L", "mkdir -p L/owner", "mkdir -p L/build", "mkdir -p L/in_use",
      "mkdir -p L/owner L/build L/in_use", "mkdir -p L/in_use/dead", "mkdir -p L/build/.gone.1",
      "mkdir -p L/build/.gone.1; touch L/build/.gone.1/a", "mkdir -p L/build/.gone.1/a",
      "mkdir -p L/build/.gone.1; touch L/build/.gone.1/{a,b}");
  const Session at;
  at.must(remains);
  CAPTURE(remains);
  CHECK(at.run({"fast_lock", "clean", "L"}) == kSilentYes);
  CHECK(at.tree().empty());
  CHECK(at.run({"fast_lock", "clean", "L"}) == kSilentYes);
}

TEST_CASE("clean removes old proposals and leaves young ones", "[e2e]") {
  const Session at;
  propose(at, "L", "old one");
  propose(at, "L", ".old");
  make_old(at, "L");
  propose(at, "L", "young");
  CHECK(at.run({"fast_lock", "clean", "L"}) == kSilentNo);
  const Tree young = {"L/", "L/build/", "L/build/young/", "L/build/young/owner/",
                      "L/build/young/owner/young"};
  CHECK(at.tree() == young);
  CHECK(at.run({"fast_lock", "clean", "L"}) == kSilentNo);
  CHECK(at.tree() == young);
}

TEST_CASE("clean leaves a proposal whose inner folder was touched lately", "[e2e]") {
  const Session at;
  propose(at, "L", "a");
  at.must("touch -d '1 hour ago' L/build/a");
  CHECK(at.run({"fast_lock", "clean", "L"}) == kSilentNo);
  CHECK(at.tree("L").size() == 4);
}

TEST_CASE("clean beside a holder removes old proposals and keeps the holder", "[e2e]") {
  const Session at;
  at.must("fast_lock lock L a");
  propose(at, "L", "old");
  at.must("mkdir -p L/in_use/a L/in_use/dead");
  make_old(at, "L/build");
  CHECK(at.run({"fast_lock", "clean", "L"}) == kSilentNo);
  CHECK(at.tree() == Tree{"L/", "L/in_use/", "L/in_use/a/", "L/owner/", "L/owner/a"});
}

TEST_CASE("the option --older-than sets what clean takes for old", "[e2e]") {
  const Session at;
  propose(at, "L", "a");
  CHECK(at.run({"fast_lock", "--older-than", "1000", "clean", "L"}) == kSilentNo);
  CHECK(at.tree("L").size() == 4);
  CHECK(at.run({"fast_lock", "--older-than", "0", "clean", "L"}) == kSilentYes);
  CHECK(at.tree().empty());
  propose(at, "L", "a");
  make_old(at, "L");
  CHECK(at.run({"fast_lock", "--older-than", "7200", "clean", "L"}) == kSilentNo);
  CHECK(at.run({"fast_lock", "--older-than", "1800", "clean", "L"}) == kSilentYes);
}

TEST_CASE("the option --older-than wants a number of seconds", "[e2e]") {
  const std::string value = GENERATE("", "x", "-1", "1.5", "5s", "99999999999999999999");
  const Session at;
  propose(at, "L", "a");
  CAPTURE(value);
  check_usage(at.run({"fast_lock", "--older-than", value, "clean", "L"}));
  CHECK(at.tree("L").size() == 4);
}

TEST_CASE("fast_lock has no checker and so no is_stale", "[e2e]") {
  check_usage(run({"fast_lock", "is_stale", "L"}), "is_stale");
}

TEST_CASE("the tool runs under its shell name and through the front door", "[e2e]") {
  const Session at;
  const std::string script = build_dir() + "/libexec/holdfast/lockers/lib/fast_lock.sh";
  at.must("ln -s " + script + " my_locker");
  CHECK(at.run({script, "lock", "L", "a"}) == kSilentYes);
  CHECK(at.run({"holdfast", "fast_lock", "owner", "L"}) == Result{0, "a\n", ""});
  CHECK(at.run({"holdfast", "fast_lock.sh", "is_mine", "L", "a"}) == kSilentYes);
  CHECK(at.run({at.path("my_locker"), "unlock", "L", "a"}) == kSilentYes);
  CHECK(at.tree() == Tree{"my_locker@"});
}

TEST_CASE("the front door helps on stdout when asked and on stderr when misused", "[e2e]") {
  const Result asked = run({"holdfast", "--help"});
  CHECK(asked.code == 0);
  CHECK_THAT(asked.out, Contains("fast_lock") && Contains("lock_local"));
  CHECK(asked.err.empty());
  const Result misused = run({"holdfast", "no_such_tool"});
  CHECK(misused.code == 10);
  CHECK(misused.out.empty());
  CHECK_THAT(misused.err, Contains("no_such_tool"));
  CHECK(run({"holdfast"}).code == 10);
}
