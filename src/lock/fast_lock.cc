#include "lock/fast_lock.h"

#include <sched.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <initializer_list>

#include "base/text.h"

namespace holdfast::lock {

using disk::At;
using disk::Handle;
using disk::Path;
using disk::SafePath;

namespace {

/// How often a step that somebody else's tidying got in the way of is done over. Eight spinning
/// rivals disturb about one attempt in ten; whoever exhausts this is told "not now" with the last
/// reason.
constexpr int kRetryLimit = 32;

/// 128 random bits in hex: no two attempts on this earth share one.
std::string fresh_nonce() {
  std::array<unsigned char, 16> bytes;
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    throw std::system_error(errno, std::generic_category(), "getrandom");
  }
  constexpr char kHex[] = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : bytes) {
    text += kHex[byte >> 4];
    text += kHex[byte & 15];
  }
  return text;
}

/// Errors that say "what you saw is no longer so" (or that a reply was lost): look again, a bounded
/// number of times.
bool is_passing(std::error_code ec) {
  return ec == std::errc::no_such_file_or_directory || ec == std::errc::file_exists ||
         ec == std::errc::directory_not_empty || ec == std::errc::interrupted ||
         ec == std::error_code(ESTALE, std::generic_category());
}

bool is_stale_handle(std::error_code ec) {
  return ec == std::errc::interrupted || ec == std::error_code(ESTALE, std::generic_category());
}

/// No such folder: nobody is there. (A link or a file in its place is no folder either.)
bool is_nothing(std::error_code ec) {
  return ec == std::errc::no_such_file_or_directory || ec == std::errc::not_a_directory ||
         ec == std::errc::too_many_symbolic_link_levels;
}

/// Of several steps, the first that really went wrong: a folder that was there already did not.
std::error_code first_cause(std::initializer_list<std::error_code> steps) {
  for (const std::error_code ec : steps) {
    if (ec && ec != std::errc::file_exists) return ec;
  }
  return std::data(steps)[steps.size() - 1];
}

bool is_shared(const disk::Entry& leaf) {
  return leaf.kind == disk::Kind::symlink;
}

auto find_leaf(const std::vector<disk::Entry>& leaves, const Uid& id) {
  return std::find_if(leaves.begin(), leaves.end(),
                      [&](const disk::Entry& leaf) { return leaf.name == id.str(); });
}

bool contains(const std::vector<std::string>& names, const Uid& id) {
  return std::find(names.begin(), names.end(), id.str()) != names.end();
}

/// Which leaves to read for is_own: the text of an id changes when the clock is stepped or the
/// process takes a name with blanks, but its pid is always in it.
class MayBeOf {
 public:
  explicit MayBeOf(const Record& process)
      : pid_(process.names_process() ? std::to_string(process.pid) : "") {}
  bool operator()(const std::string& name) const {
    return !pid_.empty() && name.find(pid_) != std::string::npos;
  }

 private:
  std::string pid_;
};

std::function<bool(const Uid&)> may_be_own(const Uid& id, const Record& caller) {
  return
      [id, may_be = MayBeOf(caller)](const Uid& held) { return held == id || may_be(held.str()); };
}

/// The one under `id` goes first.
const Leaf* find_own(const std::vector<Leaf>& leaves, const Uid& id, const Record& caller) {
  const Leaf* own = nullptr;
  for (const Leaf& leaf : leaves) {
    if (is_own(leaf, id, caller) && (!own || leaf.id == id)) own = &leaf;
  }
  return own;
}

/// What flock says if another process has it.
constexpr std::errc kIsTaken = std::errc::resource_unavailable_try_again;

std::vector<std::string> names_of(const std::vector<disk::Entry>& entries) {
  std::vector<std::string> names;
  names.reserve(entries.size());
  for (const disk::Entry& entry : entries) names.push_back(entry.name);
  return names;
}

/// In a circle, so that everybody is the next of somebody. None if `id` is alone.
std::optional<Uid> next_after(const Uid& id, std::vector<std::string> names) {
  std::erase_if(names, [&](const std::string& n) { return n == id.str() || Layout::is_silly(n); });
  if (names.empty()) return std::nullopt;
  const auto next = std::upper_bound(names.begin(), names.end(), id.str());
  return Uid::found(next == names.end() ? names.front() : *next);
}

/// Holders and proposers, sorted, each once.
std::vector<Uid> ids_among(std::vector<std::string> names,
                           const std::vector<std::string>& proposers) {
  names.insert(names.end(), proposers.begin(), proposers.end());
  std::erase_if(names,
                [](const std::string& n) { return Layout::is_silly(n) || Layout::is_gone(n); });
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  std::vector<Uid> ids;
  ids.reserve(names.size());
  for (std::string& name : names) ids.push_back(Uid::found(std::move(name)));
  return ids;
}

}  // namespace

/// build/<id> while one attempt is under way.
struct FastLock::Proposal {
  const Uid& id;
  const Record& record;  ///< with the nonce of this attempt
  Handle build{};
  Handle scratch{};  ///< build/<id>
  Handle seen{};     ///< owner/<id>, as last looked at
  Handle leaf{};     ///< if that is a folder: held open, so that nobody else gets its inode number
  disk::Status folder{};
  bool is_complete = false;
  std::optional<Leaf> other{};  ///< owner/<id>, if it is not from this attempt
};

/// What one look into owner/ showed.
struct FastLock::Look {
  Handle folder;                   ///< owner/, in which the leaves were read
  std::vector<std::string> names;  ///< of all leaves
  std::vector<Leaf> leaves;        ///< those that were wanted
};

Answer FastLock::held(const Proposal& p) {
  Answer answer{Outcome::held, {}};
  if (!p.leaf.is_open()) answer.nonce = p.record.nonce;
  return answer;
}

FastLock::FastLock(disk::Disk& disk, const SafePath& lock, const Log& log)
    : disk_(disk), at_(lock), log_(log) {}

Answer FastLock::lock(const Uid& id, Record record, Mode mode) {
  Answer answer{Outcome::failed, {}};
  bool again = true;
  for (int tries = 0; again && tries < kRetryLimit; ++tries) {
    record.nonce = fresh_nonce();
    answer = mode == Mode::shared ? join(id, record, again) : attempt(id, record, again);
  }
  if (answer.outcome == Outcome::held) log_.info("{} locked by {}", path().native(), id.str());
  return answer;
}

Answer FastLock::attempt(const Uid& id, const Record& record, bool& again) {
  Proposal proposal{.id = id, .record = record};
  again = false;
  if (const auto no = build(proposal, again)) return withdraw(proposal, *no);
  log_.debug("attempting to lock with {}", at_.proposal(id).native());
  const std::error_code moved = disk_.rename(Layout::proposal(proposal.scratch),
                                             Layout::owner_beside(proposal.build));  // decides
  Answer answer = settle(proposal, moved, again);
  if (answer.outcome != Outcome::held) answer = withdraw(proposal, std::move(answer));
  if (answer.outcome == Outcome::held) {
    again = false;
    // others may build there, a second task of this id too
    (void)disk_.remove_dir(Layout::scratch(proposal.build, id));
    answer.is_alone = !disk_.remove_dir(Layout::build_itself(proposal.build));
  }
  disk::close_together({&proposal.build, &proposal.scratch, &proposal.seen, &proposal.leaf});
  return answer;
}

/// One attempt at a shared hold.
Answer FastLock::join(const Uid& id, const Record& record, bool& again) {
  again = false;
  Handle owner;
  std::vector<disk::Entry> leaves;
  const auto cannot = [&](const char* what, const SafePath& where, std::error_code ec) {
    again = is_passing(ec);
    tidy();
    return Answer{Outcome::failed, what + where.native() + ": " + explain(ec)};
  };
  if (const auto ec = open_owner(owner)) return cannot("cannot make ", at_.owner(), ec);
  if (const auto ec = list_leaves(Layout::itself(owner), leaves)) {
    return cannot("cannot look into ", at_.owner(), ec);
  }
  // only advice, but it keeps our leaf from the side of an exclusive one, where a shell holder that
  // asks "is it mine" would stumble over it
  if (find_leaf(leaves, id) != leaves.end()) {
    const auto leaf = read_back(owner, id);
    if (leaf) return held_under(*leaf, record);
    again = true;
    return {Outcome::contended, {}};
  }
  if (!std::all_of(leaves.begin(), leaves.end(), is_shared)) {
    return foreign_among(owner, names_of(leaves)).value_or(Answer{Outcome::contended, {}});
  }
  if (disk_.flock(owner, disk::Disk::Share::alone) == kIsTaken) {
    again = true;  // a cleaner may be about to remove an earlier leaf of this id
    return {Outcome::contended, {}};
  }
  (void)disk_.flock(owner, disk::Disk::Share::none);
  const std::error_code made = disk_.symlink(shared_target(record), Layout::leaf(owner, id));
  if (made) {  // its reply may have been lost
    const auto leaf = read_back(owner, id);
    if (!leaf) return cannot("cannot make ", at_.leaf(id), made);
    if (!leaf->is_readable) return unreadable(id);
    if (!leaf->record || leaf->record->nonce != record.nonce) return held_under(*leaf, record);
  }
  return look_around(owner, id, record, again);
}

/// Our leaf is in: who was there before?
Answer FastLock::look_around(const Handle& owner, const Uid& id, const Record& record,
                             bool& again) {
  std::vector<disk::Entry> leaves;
  if (const auto ec = list_leaves(Layout::itself(owner), leaves)) {
    return back_out(
        id, record,
        {Outcome::failed, "cannot look into " + at_.owner().native() + ": " + ec.message()});
  }
  const auto own = find_leaf(leaves, id);
  if (own == leaves.end() || !is_shared(*own)) {  // somebody removed it already
    again = true;
    return {Outcome::contended, {}};
  }
  if (!std::all_of(leaves.begin(), leaves.end(), is_shared)) {
    return back_out(id, record, {Outcome::contended, {}});
  }
  const MayBeOf may_be_own(record);
  for (const disk::Entry& leaf : leaves) {
    if (leaf.name == id.str() || !may_be_own(leaf.name)) continue;
    const auto other = read_leaf(disk_, {owner, leaf.name}, leaf.name);
    if (other && is_own(*other, id, record)) {
      return back_out(id, record,
                      {Outcome::already_mine, path().native() + " already locked by " + leaf.name});
    }
  }
  return {Outcome::held, {}, leaves.size() == 1, record.nonce};
}

/// Takes our shared leaf back after a no; if it went meanwhile, a later one of the id stays.
Answer FastLock::back_out(const Uid& id, const Record& record, Answer answer) {
  if (const auto ec = release(id, record.nonce)) {
    return {Outcome::failed, "cannot remove " + at_.leaf(id).native() + ": " + explain(ec) +
                                 ": the lock may be held by " + id.str()};
  }
  tidy();
  return answer;
}

/// For an attempt under the id of that leaf, which is from another attempt.
Answer FastLock::held_under(const Leaf& leaf, const Record& record) const {
  if (leaf.is_foreign) return foreign(leaf);
  if (is_twin(leaf, leaf.id, record)) return {Outcome::contended, describe_twin(path(), leaf)};
  return {Outcome::already_mine, path().native() + " already locked by " + leaf.id.str()};
}

Answer FastLock::foreign(const Leaf& leaf) const {
  Answer answer{Outcome::failed,
                at_.leaf(leaf.id).native() + " was not made by a locker: " + path().native() +
                    " may be a directory of yours. Nothing was changed. Choose another path, or "
                    "remove that file"};
  answer.is_foreign = true;
  return answer;
}

/// Of a lock that is held: looks at a few of its leaves, since the leaves of a real lock are many
/// only if all of them are records.
std::optional<Answer> FastLock::foreign_among(const Handle& owner,
                                              const std::vector<std::string>& names) const {
  constexpr std::size_t kEnough = 8;
  for (std::size_t i = 0; i < std::min(names.size(), kEnough); ++i) {
    const auto leaf = read_leaf(disk_, {owner, names[i]}, names[i]);
    if (leaf && leaf->is_foreign) return foreign(*leaf);
  }
  return std::nullopt;
}

/// The leaf of `id`, read until that works. Nothing if it is not there.
std::optional<Leaf> FastLock::read_back(const Handle& owner, const Uid& id) const {
  std::optional<Leaf> leaf;
  for (int tries = 0; tries < kRetryLimit; ++tries) {
    leaf = read_leaf(disk_, Layout::leaf(owner, id), id.str());
    if (leaf ? leaf->is_readable : !is_owner(id)) break;
  }
  return leaf;
}

Answer FastLock::unreadable(const Uid& id) const {
  return {Outcome::failed,
          "cannot read back " + at_.leaf(id).native() + ": the lock may be held by " + id.str()};
}

/// Removes the folders that became empty.
void FastLock::tidy() {
  (void)disk_.remove_dir(at_.owner());  // others may be in
  (void)disk_.remove_dir(at_.lock());
}

/// For reading, since flock needs that.
std::error_code FastLock::open_owner(Handle& owner) {
  std::error_code ec = disk_.open_file(at_.owner(), owner);
  if (ec != std::errc::no_such_file_or_directory) return ec;
  const std::error_code lock_made = disk::make_dirs(disk_, at_.lock());
  const std::error_code owner_made = disk_.make_dir(at_.owner());
  ec = disk_.open_file(at_.owner(), owner);
  return ec ? first_cause({lock_made, owner_made, ec}) : ec;
}

Answer FastLock::upgrade(const Uid& id, Record record) {
  Answer answer = change(id, record, Mode::exclusive);
  if (answer.outcome != Outcome::held) return answer;
  std::vector<disk::Entry> leaves;
  if (const auto ec = list_leaves(at_.owner(), leaves)) {
    return {Outcome::failed, "cannot look into " + at_.owner().native() + ": " + ec.message()};
  }
  const auto own = find_leaf(leaves, id);
  if (own == leaves.end()) return not_locked_by(id);
  if (leaves.size() == 1 && !is_shared(*own)) {
    log_.info("{} upgraded by {}", path().native(), id.str());
    return answer;
  }
  return {Outcome::contended, {}, false, answer.nonce};
}

Answer FastLock::downgrade(const Uid& id, Record record) {
  Answer answer = change(id, record, Mode::shared);
  if (answer.outcome == Outcome::held) log_.info("{} downgraded by {}", path().native(), id.str());
  return answer;
}

Answer FastLock::not_locked_by(const Uid& id) const {
  return {Outcome::not_mine, path().native() + " is not locked by " + id.str()};
}

Answer FastLock::not_mine(const Look& look, const Uid& id, const Record& caller) const {
  for (const Leaf& leaf : look.leaves) {
    if (is_twin(leaf, id, caller)) return {Outcome::not_mine, describe_twin(path(), leaf)};
  }
  return not_locked_by(id);
}

Answer FastLock::cannot_look(std::error_code ec) const {
  return {Outcome::failed, "cannot look into " + at_.owner().native() + ": " + explain(ec)};
}

Answer FastLock::cannot_read(const Uid& id) const {
  return {Outcome::failed, "cannot read " + at_.leaf(id).native()};
}

/// Puts a leaf of that mode in the place of the own one. The hold keeps its nonce.
Answer FastLock::change(const Uid& id, Record& record, Mode mode) {
  Answer answer{Outcome::failed, {}};
  for (int tries = 0; tries < kRetryLimit; ++tries) {
    Handle owner;
    const std::error_code looked = disk_.open_dir(at_.owner(), owner);
    if (looked && !is_nothing(looked)) {
      return cannot_look(looked);
    }
    const auto own = looked ? std::nullopt : read_leaf(disk_, Layout::leaf(owner, id), id.str());
    if (!own && is_owner(id)) {
      answer.why = "cannot read " + at_.leaf(id).native();
      continue;
    }
    if (!own || is_twin(*own, id, record)) return not_locked_by(id);
    if (own->is_foreign) return foreign(*own);
    if (!own->is_readable) return cannot_read(id);  // its mode is not known
    record.nonce = own->record ? own->record->nonce : fresh_nonce();
    if (own->mode == mode) return {Outcome::held, {}, false, record.nonce};
    Handle build;
    Handle scratch;
    std::error_code made = disk_.make_dir(at_.build());
    std::error_code ec = disk_.open_dir(at_.build(), build);
    if (!ec) {
      made = disk_.make_dir(Layout::scratch(build, id));
      ec = disk_.open_dir(Layout::scratch(build, id), scratch);
    }
    if (ec) ec = first_cause({made, ec});
    if (!ec) ec = write_replacement(scratch, record, mode);
    answer = {Outcome::failed,
              "cannot make a leaf for " + at_.leaf(id).native() + ": " + explain(ec)};
    if (!ec) answer = move_replacement(scratch, owner, id, record, mode);
    if (scratch.is_open()) {
      (void)disk_.unlink(Layout::replacement(scratch));
      (void)disk_.remove_dir(Layout::scratch(build, id));
    }
    if (build.is_open()) (void)disk_.remove_dir(Layout::build_itself(build));
    if (answer.outcome != Outcome::failed || (ec && !is_passing(ec))) break;
  }
  return answer;
}

std::error_code FastLock::write_replacement(const Handle& scratch, const Record& record,
                                            Mode mode) {
  (void)disk_.unlink(Layout::replacement(scratch));  // of a change that was killed
  if (mode == Mode::shared) {
    return disk_.symlink(shared_target(record), Layout::replacement(scratch));
  }
  Handle leaf;
  std::error_code ec = disk_.create(Layout::replacement(scratch), leaf);
  if (!ec) ec = disk_.write(leaf, to_line(record));
  if (leaf.is_open()) {
    const std::error_code closed = disk_.close(leaf);
    if (!ec) ec = closed;
  }
  return ec;
}

/// The step that changes the mode. Its reply is only a hint.
Answer FastLock::move_replacement(const Handle& scratch, const Handle& owner, const Uid& id,
                                  const Record& record, Mode mode) {
  const auto has_it = [&](const std::optional<Leaf>& leaf) {
    return leaf && leaf->record && leaf->record->nonce == record.nonce;
  };
  // a rename onto a name that went would bring it back
  if (const auto before = read_back(owner, id); !before || (before->record && !has_it(before))) {
    return not_locked_by(id);
  }
  const std::error_code moved = disk_.rename(Layout::replacement(scratch), Layout::leaf(owner, id));
  const auto now = read_leaf(disk_, Layout::leaf(owner, id), id.str());
  if (has_it(now) && now->mode == mode) {
    return {Outcome::held, {}, false, record.nonce};
  }
  return {Outcome::failed, "cannot change the mode of " + at_.leaf(id).native() + ": " +
                               (moved ? explain(moved) : std::string("it was removed"))};
}

/// The folders, then the leaf. A mkdir is not believed: the open that follows decides, and the
/// mkdir's error is only the reason given when that fails.
std::optional<Answer> FastLock::build(Proposal& p, bool& again) {
  const auto cannot = [&](const SafePath& folder, std::error_code ec) {
    again = is_passing(ec);
    return Answer{Outcome::failed, "cannot make " + folder.native() + ": " + explain(ec)};
  };
  const std::error_code lock_made = disk::make_dirs(disk_, at_.lock());
  const std::error_code build_made = disk_.make_dir(at_.build());
  if (const auto ec = disk_.open_dir(at_.build(), p.build)) {
    return cannot(at_.build(), first_cause({lock_made, build_made, ec}));
  }
  const std::error_code scratch_made = disk_.make_dir(Layout::scratch(p.build, p.id));
  if (const auto ec = disk_.open_dir(Layout::scratch(p.build, p.id), p.scratch)) {
    return cannot(at_.scratch(p.id), first_cause({scratch_made, ec}));
  }
  // An owner folder that is there already belongs to another attempt of this id, dead or alive, or
  // is ours with its reply lost: only one that this mkdir made is ours for certain. withdraw()
  // takes it away and the next attempt starts clean.
  if (const auto ec = disk_.make_dir(Layout::proposal(p.scratch))) {
    return cannot(at_.proposal(p.id), ec);
  }
  return write_leaf(p, again);
}

std::optional<Answer> FastLock::write_leaf(Proposal& p, bool& again) {
  std::error_code ec;
  if (leaf_kind_ == LeafKind::dir) {
    Handle folder;
    ec = disk_.open_dir(Layout::proposal(p.scratch), folder);
    if (!ec) ec = disk_.make_dir({folder, p.id.str()});
    if (!ec) ec = disk_.open_dir({folder, p.id.str()}, p.leaf);
    if (!ec) ec = disk_.status({p.leaf, "."}, p.folder);
  } else {
    Handle leaf;
    ec = disk_.create(Layout::proposed_leaf(p.scratch, p.id), leaf);
    if (!ec) ec = disk_.write(leaf, to_line(p.record));
    if (leaf.is_open()) {
      const std::error_code closed = disk_.close(leaf);
      if (!ec) ec = closed;
    }
  }
  if (ec) {
    again = is_passing(ec);
    return Answer{Outcome::failed,
                  "cannot make " + at_.proposed_leaf(p.id).native() + ": " + explain(ec)};
  }
  p.is_complete = true;
  return std::nullopt;
}

/// Who has it now? `moved` is what the rename said, and only a hint.
Answer FastLock::settle(Proposal& p, std::error_code moved, bool& again) {
  std::vector<std::string> names;
  std::error_code listed;
  Found found = Found::nobody;
  for (int tries = 0; tries < kRetryLimit; ++tries) {
    found = find(p);
    if (found != Found::nobody) break;
    listed = list(Layout::owner_beside(p.build), names);
    if (!contains(names, p.id)) break;  // else the first look was wrong, or it came just now
  }
  switch (found) {
    case Found::mine:
      return held(p);
    case Found::same_id:
      return held_under(*p.other, p.record);
    case Found::unreadable:
      if (moved) {
        listed = list(Layout::owner_beside(p.build), names);
        break;
      }
      // It is ours, but nothing can be read back: better given up than held by one who cannot vouch
      // for it.
      if (Handle owner; disk_.open_dir(Layout::owner_beside(p.build), owner) ||
                        release(owner, Leaf{p.id, std::nullopt, false})) {
        return {Outcome::failed, "cannot read back nor remove " + at_.leaf(p.id).native() +
                                     ": the lock may be held by " + p.id.str()};
      }
      return {Outcome::failed, "cannot read back " + at_.leaf(p.id).native()};
    case Found::nobody:
      break;
  }
  const auto silly = std::partition(
      names.begin(), names.end(), [](const std::string& name) { return !Layout::is_silly(name); });
  if (silly != names.begin()) {
    names.erase(silly, names.end());
    if (Handle owner; !disk_.open_dir(Layout::owner_beside(p.build), owner)) {
      if (auto no = foreign_among(owner, names)) return *no;
    }
    if (names.size() == 1 || is_shared_by_all()) return {Outcome::contended, {}};
    std::string why = path().native() + " has " + std::to_string(names.size()) + " owners:";
    for (const std::string& name : names) why += " " + name;
    return {Outcome::contended, why};
  }
  if (silly != names.end()) {
    // no holder, but NFS keeps the leaf of one for a program that has it open
    again = true;
    Handle owner;
    if (!disk_.open_dir(Layout::owner_beside(p.build), owner)) (void)disk_.unlink({owner, *silly});
    return {Outcome::contended,
            path().native() + " is blocked by " + *silly +
                ", which NFS removes when the program that has it open closes it"};
  }
  if (!moved) {  // the proposal was emptied on its way: nobody holds
    again = true;
    return {Outcome::contended, {}};
  }
  if (moved == std::errc::cross_device_link) {
    return {Outcome::cross_device,
            path().native() + " is spread over two filesystems: " + moved.message()};
  }
  const bool is_in_the_way =
      moved == std::errc::directory_not_empty || moved == std::errc::file_exists;
  if (is_in_the_way && listed && !is_nothing(listed)) {
    return {Outcome::contended,
            "cannot see who holds " + path().native() + ": " + listed.message()};
  }
  again = is_passing(moved);
  return {Outcome::failed,
          "cannot move the proposal onto " + at_.owner().native() + ": " + explain(moved)};
}

/// Takes the proposal back after a no.
Answer FastLock::withdraw(Proposal& p, Answer answer) {
  if (p.scratch.is_open()) {
    discard(p.build, p.scratch, p.id);
    // Another task of this id may have moved ours onto owner/ and left its own to be taken back.
    if (p.is_complete && answer.outcome != Outcome::already_mine && find(p) == Found::mine) {
      return held(p);
    }
  }
  bool is_last = false;
  if (p.build.is_open()) {
    (void)disk_.remove_dir(Layout::scratch(p.build, p.id));
    is_last = !disk_.remove_dir(Layout::build_itself(p.build));
  } else {
    (void)disk_.remove_dir(at_.build());
    is_last = true;
  }
  if (is_last) {  // an unlock meanwhile could not remove these because of us
    (void)disk_.remove_dir(at_.owner());
    (void)disk_.remove_dir(at_.lock());
  }
  return answer;
}

FastLock::Found FastLock::find(Proposal& p) const {
  std::error_code ec;
  const auto is_of_other = [&p](std::optional<Leaf> leaf) {
    p.other = leaf ? std::move(leaf) : Leaf{p.id, std::nullopt};
    return Found::same_id;
  };
  for (int tries = 0; tries < kRetryLimit; ++tries) {
    // open, not stat: on NFS that asks the server about a name that is there
    ec = disk_.open_file(Layout::leaf_beside(p.build, p.id), p.seen);
    if (!ec && leaf_kind_ == LeafKind::dir) {
      disk::Status now;
      ec = disk_.status({p.seen, "."}, now);
      if (!ec && now.is_same_object(p.folder)) return Found::mine;
      if (!ec || ec == std::errc::not_a_directory) {
        return is_of_other(read_leaf(disk_, Layout::leaf_beside(p.build, p.id), p.id.str()));
      }
    } else if (!ec) {
      Leaf leaf{p.id, std::nullopt};
      ec = read_content(disk_, p.seen, leaf);
      if (ec == std::errc::is_a_directory) return is_of_other(std::nullopt);
      if (!ec && leaf.record && leaf.record->nonce == p.record.nonce) return Found::mine;
      if (!ec || leaf.is_foreign) return is_of_other(std::move(leaf));
    }
    if (ec == std::errc::no_such_file_or_directory || ec == std::errc::not_a_directory)
      return Found::nobody;
    Handle owner;
    if (ec == std::errc::too_many_symbolic_link_levels &&
        !disk_.open_dir(Layout::owner_beside(p.build), owner)) {
      // a shared hold; else owner itself is a link
      return is_of_other(read_leaf(disk_, Layout::leaf(owner, p.id), p.id.str()));
    }
    if (!is_stale_handle(ec)) break;
  }
  return Found::unreadable;
}

/// Moves the proposal of an id out of the way, whole, and only then takes it apart.
void FastLock::discard(const Handle& build, const Handle& scratch, const Uid& id) {
  const std::string unique = fresh_nonce();
  (void)disk_.rename(Layout::proposal(scratch), Layout::gone(build, unique));
  purge(Layout::gone(build, unique), &id);  // also after an error: its reply may have been lost
}

/// Removes a folder that can no longer become owner/. `likely` saves a listing.
void FastLock::purge(const At& folder, const Uid* likely) {
  Handle dir;
  if (disk_.open_dir(folder, dir)) {
    if (disk_.remove_dir(folder) == std::errc::not_a_directory) (void)disk_.unlink(folder);
    return;
  }
  if (likely) (void)remove_leaf(dir, likely->str());
  if (!disk_.remove_dir(folder)) return;
  std::vector<std::string> names;
  (void)list(folder, names);
  for (const std::string& name : names) {
    const auto leaf = read_leaf(disk_, {dir, name}, name);
    if (leaf && !leaf->is_foreign) (void)remove_leaf(dir, name);
  }
  (void)disk_.remove_dir(folder);  // what stays, the next clean() finds
}

std::error_code FastLock::remove_leaf(const Handle& dir, const std::string& name) {
  const std::error_code ec = disk_.unlink({dir, name});
  if (ec != std::errc::is_a_directory && ec != std::errc::operation_not_permitted) return ec;
  const std::error_code as_folder = disk_.remove_dir({dir, name});
  return as_folder == std::errc::not_a_directory ? ec : as_folder;
}

Answer FastLock::unlock(const Uid& id, const Record& caller) {
  Look look;
  if (const auto ec = this->look(may_be_own(id, caller), look)) return cannot_look(ec);
  const Leaf* own = find_own(look.leaves, id, caller);
  if (!own) return not_mine(look, id, caller);
  if (!own->is_readable && caller.names_process()) return cannot_read(id);
  return give_up(look, *own);
}

Answer FastLock::unlock_hold(const Uid& id, const std::string& nonce) {
  if (nonce.empty()) return unlock(id);
  Look look;
  if (const auto ec = this->look([&](const Uid& held) { return held == id; }, look)) {
    return cannot_look(ec);
  }
  if (look.leaves.empty()) return not_locked_by(id);
  const Leaf& leaf = look.leaves.front();
  if (!leaf.is_readable) return cannot_read(id);
  const bool is_that = leaf.record && leaf.record->nonce == nonce;
  return is_that ? give_up(look, leaf) : not_locked_by(id);
}

Answer FastLock::give_up(Look& look, const Leaf& own) {
  if (own.is_foreign) return foreign(own);
  const auto is_there =
      own.mode == Mode::exclusive ? std::optional(true) : is_fixed(look.folder, own);
  if (!is_there) return cannot_read(own.id);
  if (const auto ec = *is_there ? release(look.folder, own) : std::error_code{}) {
    return {Outcome::failed, "cannot unlock " + path().native() + ": " + explain(ec)};
  }
  (void)disk_.remove_dir(at_.owner());  // a rival may be in already
  std::error_code removed = disk_.remove_dir(at_.lock());
  Handle scratch;
  if (removed && !disk_.open_dir(at_.scratch(own.id), scratch)) {  // of a change that was killed
    remove_replacement(scratch);
    (void)disk_.remove_dir(at_.scratch(own.id));
    (void)disk_.remove_dir(at_.build());
    removed = disk_.remove_dir(at_.lock());
  }
  log_.info("{} unlocked by {}", path().native(), own.id.str());
  const bool is_alone = !removed || removed == std::errc::no_such_file_or_directory;
  return {Outcome::released, {}, is_alone, {}, next_after(own.id, look.names)};
}

/// From a yes on until the folder is closed, no later leaf of the id takes the place of this one: a
/// sharer that finds this one gone does not come in. Nothing if the leaf cannot be read.
std::optional<bool> FastLock::is_fixed(const Handle& owner, const Leaf& leaf) {
  for (int tries = 0; tries < kRetryLimit; ++tries) {
    if (disk_.flock(owner, disk::Disk::Share::together) != kIsTaken) break;
    sched_yield();  // a sharer had it for a moment
  }
  const auto now = read_back(owner, leaf.id);
  if (now && !now->is_readable) return std::nullopt;
  return now && !now->is_foreign && is_same_hold(*now, leaf);
}

/// Removes the leaf below the folder in which it was read. "Not there" is a success: either an
/// unlink of ours removed it and its reply was lost, or a cleaner was quicker.
std::error_code FastLock::release(Handle& owner, const Leaf& own) {
  std::error_code ec;
  for (int tries = 0; tries < kRetryLimit; ++tries) {
    ec = remove_leaf(owner, own.id.str());
    if (!ec || !is_still_there(owner, own)) return {};
    if (!is_passing(ec)) break;
  }
  return ec;
}

/// After an unlink that failed. If the hold is still there, `owner` is the folder that has it.
bool FastLock::is_still_there(Handle& owner, const Leaf& own) const {
  std::vector<std::string> names;
  const std::error_code listed = list(at_.owner(), names);
  if ((!listed || is_nothing(listed)) && !contains(names, own.id)) return false;
  Handle now;
  if (disk_.open_dir(at_.owner(), now)) return true;
  const auto leaf = read_leaf(disk_, Layout::leaf(now, own.id), own.id.str());
  if (leaf && leaf->is_readable && !is_same_hold(*leaf, own)) return false;  // its id came again
  owner = std::move(now);
  return true;
}

/// The leaf of that hold, whichever folder it is in by now.
std::error_code FastLock::release(const Uid& id, const std::string& nonce) {
  Handle owner;
  std::error_code ec;
  for (int tries = 0; tries < kRetryLimit; ++tries) {
    ec = disk_.open_dir(at_.owner(), owner);
    if (!ec || !is_stale_handle(ec)) break;
  }
  if (ec) return is_nothing(ec) && !is_owner(id) ? std::error_code{} : ec;
  const auto leaf = read_back(owner, id);
  if (!leaf) return {};
  if (!leaf->is_readable) return std::make_error_code(std::errc::io_error);
  if (!leaf->record || leaf->record->nonce != nonce) return {};
  return release(owner, *leaf);
}

/// Whether the leaf of `id` is from that hold; nothing if that cannot be read.
std::optional<bool> FastLock::has_nonce(const Uid& id, const std::string& nonce) const {
  Handle owner;
  if (const auto ec = disk_.open_dir(at_.owner(), owner)) {
    return is_nothing(ec) ? std::optional(false) : std::nullopt;
  }
  const auto leaf = read_leaf(disk_, {owner, id.str()}, id.str());
  if (leaf && !leaf->is_readable) return std::nullopt;
  return leaf && leaf->record && leaf->record->nonce == nonce;
}

std::vector<Leaf> FastLock::owner(std::error_code& ec) const {
  return owner([](const Uid&) { return true; }, ec);
}

/// A leaf that was listed and cannot be found is gone if the next listing says so.
std::error_code FastLock::look(const std::function<bool(const Uid&)>& wanted, Look& look) const {
  std::error_code ec;
  for (int tries = 0; tries < kRetryLimit; ++tries) {
    look.leaves.clear();
    ec = list(at_.owner(), look.names);
    if (ec) break;
    ec = disk_.open_file(at_.owner(), look.folder);
    if (is_passing(ec)) continue;
    if (ec) break;
    std::erase_if(look.names, Layout::is_silly);
    std::size_t missing = 0;
    for (const std::string& name : look.names) {
      if (!wanted(Uid::found(name))) continue;
      auto leaf = read_leaf(disk_, {look.folder, name}, name);
      if (leaf) look.leaves.push_back(std::move(*leaf));
      if (!leaf) ++missing;
    }
    if (missing == 0) break;
  }
  if (!is_nothing(ec)) return ec;
  look.names.clear();
  return {};
}

std::vector<Leaf> FastLock::owner(const std::function<bool(const Uid&)>& wanted,
                                  std::error_code& ec) const {
  Look look;
  ec = this->look(wanted, look);
  return std::move(look.leaves);
}

std::vector<Leaf> FastLock::owner() const {
  std::error_code ec;
  auto leaves = owner(ec);
  if (ec) throw std::system_error(ec, "cannot look into " + at_.owner().native());
  return leaves;
}

std::optional<Leaf> FastLock::leaf_of(const Uid& id, const Record& caller,
                                      std::error_code& ec) const {
  const std::vector<Leaf> leaves = owner(may_be_own(id, caller), ec);
  const Leaf* own = find_own(leaves, id, caller);
  return own ? std::optional(*own) : std::nullopt;
}

std::optional<std::string> FastLock::twin_of(const Uid& id, const Record& caller) const {
  std::error_code ec;  // a caller that cannot look is told elsewhere
  for (const Leaf& leaf : owner([&](const Uid& held) { return held == id; }, ec)) {
    if (is_twin(leaf, id, caller)) return describe_twin(path(), leaf);
  }
  return std::nullopt;
}

std::vector<Leaf> FastLock::proposals() const {
  std::vector<Leaf> leaves;
  Handle build;
  if (disk_.open_dir(at_.build(), build)) return leaves;
  for (const std::string& name : names_in(at_.build())) {
    if (Layout::is_gone(name)) continue;
    const Uid id = Uid::found(name);
    Handle scratch;
    std::optional<Leaf> leaf;
    if (!disk_.open_dir(Layout::scratch(build, id), scratch)) {
      leaf = read_leaf(disk_, Layout::proposed_leaf(scratch, id), name);
    }
    leaves.push_back(leaf ? std::move(*leaf) : Leaf{id, std::nullopt});
  }
  return leaves;
}

std::optional<Mode> FastLock::mode(const Uid& id, std::error_code& ec) const {
  std::vector<disk::Entry> leaves;
  ec = list_leaves(at_.owner(), leaves);
  if (is_nothing(ec)) ec.clear();
  const auto own = find_leaf(leaves, id);
  if (own == leaves.end()) return std::nullopt;
  return leaves.size() == 1 && !is_shared(*own) ? Mode::exclusive : Mode::shared;
}

std::optional<Mode> FastLock::mode(const Uid& id) const {
  std::error_code ec;
  const auto how = mode(id, ec);
  if (ec) throw std::system_error(ec, "cannot look into " + path().native());
  return how;
}

bool FastLock::is_shared_by_all() const {
  std::vector<disk::Entry> leaves;
  return !list_leaves(at_.owner(), leaves) && std::all_of(leaves.begin(), leaves.end(), is_shared);
}

bool FastLock::is_mine(const Uid& id, const Record& caller) const {
  if (!caller.names_process()) return is_only_name(id);
  Look look;
  if (const auto ec = this->look(may_be_own(id, caller), look)) {
    throw std::system_error(ec, "cannot look into " + path().native());
  }
  return look.names.size() == 1 && find_own(look.leaves, id, caller);
}

bool FastLock::is_held_alone(const Uid& id, const std::string& nonce) const {
  return is_only_name(id) && (nonce.empty() || has_nonce(id, nonce).value_or(false));
}

bool FastLock::is_only_name(const Uid& id) const {
  std::vector<std::string> names = must_list(at_.owner());
  std::erase_if(names, Layout::is_silly);
  return names.size() == 1 && names.front() == id.str();
}

std::vector<Uid> FastLock::ids_in_use(std::error_code& ec) const {
  std::vector<std::string> owners;
  std::vector<std::string> proposers;
  ec = list(at_.owner(), owners);
  if (is_nothing(ec)) ec.clear();
  if (!ec) ec = list(at_.build(), proposers);
  if (is_nothing(ec)) ec.clear();
  return ids_among(std::move(owners), proposers);
}

std::vector<Uid> FastLock::ids_in_use() const {
  std::error_code ec;
  auto ids = ids_in_use(ec);
  if (ec) throw std::system_error(ec, "cannot look into " + path().native());
  return ids;
}

void FastLock::clean_stale_ids(std::span<const Uid> ids) {
  clean_proposals(ids);
  for (const Uid& id : ids) (void)remove_stale(id, nullptr);
  tidy();
}

std::optional<Stuck> FastLock::clean_stale(std::span<const Leaf> leaves) {
  std::optional<Stuck> stuck;
  std::vector<Uid> ids;
  ids.reserve(leaves.size());
  for (const Leaf& leaf : leaves) ids.push_back(leaf.id);
  clean_proposals(ids);
  for (const Leaf& leaf : leaves) {
    const std::error_code ec = remove_stale(leaf.id, &leaf);
    if (ec && !stuck) stuck = Stuck{leaf.id, ec};
  }
  tidy();
  return stuck;
}

/// Removes the leaf that was judged or, without one, whichever leaf the id has. A leaf that changed
/// meanwhile stays, and the next cleaner finds it. Returns an error if the filesystem refused.
std::error_code FastLock::remove_stale(const Uid& id, const Leaf* judged) {
  log_.debug("cleaning stale id {}", id.str());
  // the listing asks an NFS server anew, which an open of a name that was missing does not
  if (!judged && !is_owner(id)) return {};
  Handle owner;
  std::error_code ec = disk_.open_file(at_.owner(), owner);
  if (!ec) {
    const auto leaf =
        judged ? std::optional(*judged) : read_leaf(disk_, Layout::leaf(owner, id), id.str());
    // an id that the caller asked for goes even if its record cannot be read
    if (leaf && is_fixed(owner, *leaf).value_or(!judged)) ec = remove_leaf(owner, id.str());
  }
  return is_passing(ec) || is_nothing(ec) ? std::error_code{} : ec;
}

void FastLock::clean_proposals(std::span<const Uid> ids) {
  Handle build;
  if (disk_.open_dir(at_.build(), build)) return;
  for (const Uid& id : ids) clean_proposal(build, id);
  (void)disk_.remove_dir(Layout::build_itself(build));  // others may build there
}

void FastLock::clean_proposal(const Handle& build, const Uid& id) {
  Handle scratch;
  if (disk_.open_dir(Layout::scratch(build, id), scratch) || !is_proposal(scratch, id)) return;
  discard(build, scratch, id);
  remove_replacement(scratch);
  (void)disk_.remove_dir(Layout::scratch(build, id));  // its task may have come back to life
}

/// Whether a locker made what is in build/<id>/owner: nothing but a leaf of that id.
bool FastLock::is_proposal(const Handle& scratch, const Uid& id) const {
  const auto leaf = read_leaf(disk_, Layout::proposed_leaf(scratch, id), id.str());
  const auto names = names_in(Layout::proposal(scratch));
  return !(leaf && leaf->is_foreign) && std::all_of(names.begin(), names.end(), [&](const auto& n) {
    return n == id.str() || Layout::is_silly(n);
  });
}

/// The leaf by which a killed task wanted to change the mode of its hold.
void FastLock::remove_replacement(const Handle& scratch) {
  const auto leaf = read_leaf(disk_, Layout::replacement(scratch), "leaf");
  if (leaf && !leaf->is_foreign) (void)disk_.unlink(Layout::replacement(scratch));
}

bool FastLock::clean(std::chrono::system_clock::time_point now, std::chrono::seconds age) {
  sweep(now, age);
  return must_list(at_.inside()).empty();
}

void FastLock::sweep(std::chrono::system_clock::time_point now, std::chrono::seconds age) {
  log_.debug("cleaning {}", path().native());
  Handle build;
  if (!disk_.open_dir(at_.build(), build)) {
    for (const std::string& name : names_in(at_.build())) {
      if (Layout::is_gone(name)) {
        purge({build, name}, nullptr);
      } else if (is_older({build, name}, now - age)) {
        clean_proposal(build, Uid::found(name));
      }
    }
  }
  std::vector<std::string> owners;
  Handle in_use;
  (void)disk_.open_dir(at_.in_use(), in_use);
  const auto marked = in_use.is_open() ? names_in(at_.in_use()) : std::vector<std::string>{};
  const std::error_code listed = list(at_.owner(), owners);  // after the marks: none comes first
  const bool is_known = !listed || is_nothing(listed);
  const std::vector<Uid> ids = ids_among(owners, names_in(at_.build()));
  for (const std::string& name : marked) {
    if (is_known && !std::binary_search(ids.begin(), ids.end(), Uid::found(name)))
      (void)disk_.remove_dir({in_use, name});
  }
  Handle owner;
  if (std::all_of(owners.begin(), owners.end(), Layout::is_silly) &&
      !disk_.open_dir(at_.owner(), owner)) {
    for (const std::string& name : owners) (void)disk_.unlink({owner, name});
  }
  for (const SafePath& folder : {at_.owner(), at_.build(), at_.in_use(), at_.lock()}) {
    (void)disk_.remove_dir(folder);  // those in use stay
  }
}

/// Whether a proposal has rested that long: neither build/<id> nor its owner folder changed since
/// `limit`.
bool FastLock::is_older(const At& scratch, std::chrono::system_clock::time_point limit) const {
  disk::Status outer;
  disk::Status inner;
  Handle dir;
  if (disk_.status(scratch, outer) || outer.modified > limit) return false;
  if (disk_.open_dir(scratch, dir)) return false;
  return disk_.status(Layout::proposal(dir), inner) || inner.modified <= limit;
}

/// Sorted; whole even if the filesystem had to be asked again. That a folder of the lock is missing
/// counts only after the folder above was looked into.
std::error_code FastLock::list(const At& at, std::vector<std::string>& names) const {
  std::error_code ec;
  bool is_fresh = at.dir != nullptr;
  for (int tries = 0; tries < kRetryLimit; ++tries) {
    names.clear();
    ec = disk_.list(at, names);
    if (ec == std::errc::no_such_file_or_directory && !is_fresh) {
      is_fresh = true;
      if (look_into(at_.lock())) continue;
    }
    if (!is_stale_handle(ec)) break;
  }
  std::sort(names.begin(), names.end());
  return ec;
}

/// The leaves in owner/, with their kinds; what NFS keeps there is none.
std::error_code FastLock::list_leaves(const At& owner, std::vector<disk::Entry>& leaves) const {
  std::error_code ec;
  for (int tries = 0; tries < kRetryLimit; ++tries) {
    leaves.clear();
    ec = disk_.list_kinds(owner, leaves);
    if (!is_stale_handle(ec)) break;
  }
  std::erase_if(leaves, [](const disk::Entry& leaf) { return Layout::is_silly(leaf.name); });
  return ec;
}

/// An NFS client that looked for a name in vain believes for up to half a minute that it is
/// missing: neither an open nor a listing of that name asks the server. Opening the folder above by
/// its name, for reading, does.
bool FastLock::look_into(const SafePath& folder) const {
  // what the user typed may be a link to a folder
  const At itself = folder.below() > 0 ? At(folder) : At(folder.whole() / "");
  Handle dir;
  if (disk_.open_file(itself, dir) != std::errc::no_such_file_or_directory) return dir.is_open();
  const SafePath parent = folder.parent();
  const SafePath above = parent.native().empty() ? SafePath(".") : parent;
  return above.native() != folder.native() && look_into(above) && !disk_.open_file(itself, dir);
}

/// For an answer: of a folder that need not be there, but must be readable if it is.
std::vector<std::string> FastLock::must_list(const At& at) const {
  std::vector<std::string> names;
  const std::error_code ec = list(at, names);
  if (ec && !is_nothing(ec)) throw std::system_error(ec, "cannot look into " + path().native());
  return names;
}

/// For tidying up: what cannot be listed stays as it is.
std::vector<std::string> FastLock::names_in(const At& at) const {
  std::vector<std::string> names;
  (void)list(at, names);
  return names;
}

bool FastLock::is_owner(const Uid& id) const {
  std::vector<std::string> names;
  (void)list(at_.owner(), names);
  return contains(names, id);
}

std::string FastLock::explain(std::error_code ec) const {
  disk::Status status;
  if (ec == std::errc::no_such_file_or_directory && !disk_.status(at_.lock(), status) &&
      status.kind == disk::Kind::symlink) {
    return path().native() + " is a symbolic link that leads nowhere";
  }
  return ec.message();
}

}  // namespace holdfast::lock
