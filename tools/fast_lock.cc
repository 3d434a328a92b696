#include "lock/fast_lock.h"

#include "base/clock.h"
#include "common/report.h"
#include "disk/disk.h"
#include "identity/local_id.h"
#include "tools.h"

namespace holdfast::tools {
namespace {

Exit lock(cli::Call& call) {
  auto lock = make_lock(call);
  const Uid id = call.id(1);
  return report_lock(call, lock, id,
                     lock.lock(id, identity::LocalId(disk::posix()).record_of_caller()));
}

Exit unlock(cli::Call& call) {
  return report_unlock(call, make_lock(call).unlock(call.id(1)));
}

Exit owner(cli::Call& call) {
  return print_owner(call, make_lock(call).owner());
}

Exit is_mine(cli::Call& call) {
  return make_lock(call).is_mine(call.id(1)) ? LockExit::ok : LockExit::contended;
}

Exit ids_in_use(cli::Call& call) {
  for (const Uid& id : make_lock(call).ids_in_use()) call.print(id.str());
  return LockExit::ok;
}

Exit clean_stale_ids(cli::Call& call) {
  std::vector<Uid> ids;
  for (std::size_t i = 1; call.has(i); ++i) ids.push_back(call.id(i));
  make_lock(call).clean_stale_ids(ids);
  return LockExit::ok;
}

Exit clean(cli::Call& call) {
  const bool is_clean = make_lock(call).clean(real_clock().wall(), call.options.age());
  return is_clean ? LockExit::ok : LockExit::contended;
}

constexpr cli::Action kActions[] = {
    {"lock", "<lock_path> <id>", 2, lock},
    {"unlock", "<lock_path> <id>", 2, unlock},
    {"owner", "<lock_path> > id", 1, owner},
    {"is_mine", "<lock_path> <id>", 2, is_mine},
    {"ids_in_use", "<lock_path> > ids", 1, ids_in_use},
    {"clean_stale_ids", "<lock_path> [ids]...", cli::at_least(1), clean_stale_ids},
    {"clean", "<lock_path>", 1, clean},
};

constexpr cli::Option kOptions[] = {
    cli::rows::dir_leaf("lock"),
    cli::rows::older_than("clean"),
};

constexpr const char* kText =
    "    A lock that is a directory, held by an id of your choice. The id must be used by one "
    "task\n"
    "    only and never again after it; nothing here can tell whether its owner still lives. To\n"
    "    recover from holders that died use check_lock or lock_local, which are built on this.\n"
    "\n"
    "    'clean' removes proposals that nobody touched for a while and empty folders.\n"
    "\n"
    "    Exit: 0 done, 1 held by another (try again), 2 could not be tried (stderr says why),\n"
    "          10 usage, 12 lock spread over two filesystems, 14 answer not written,\n"
    "          20 held by this very id; 'clean' is 0 if nothing is left, 1 if it is in use.\n";

}  // namespace

int fast_lock(int argc, char** argv) {
  return cli::run_tool(
      {.name = "fast_lock", .text = kText, .actions = kActions, .options = kOptions}, argc, argv);
}

}  // namespace holdfast::tools
