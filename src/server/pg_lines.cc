#include "server/pg_lines.h"

#include <algorithm>
#include <utility>

namespace holdfast::server {
namespace {

constexpr std::size_t kBatch = 64;

}  // namespace

void PgLines::push(Task task) {
  tasks_.push_back(std::move(task));
  given_.notify_one();
}

void PgLines::add(Task task) {
  const std::scoped_lock lock(mutex_);
  push(std::move(task));
}

void PgLines::add(const std::string& name, PgWish wish) {
  const std::scoped_lock lock(mutex_);
  const auto [line, is_new] = lines_.try_emplace(name);
  line->second.push_back(std::move(wish));
  if (is_new) push([this, name](PgDoor& door) { serve(door, name); });
}

void PgLines::serve(PgDoor& door, const std::string& name) {
  std::vector<PgWish> batch;
  {
    const std::scoped_lock lock(mutex_);
    auto& line = lines_.at(name);
    const auto end = line.begin() + static_cast<std::ptrdiff_t>(std::min(kBatch, line.size()));
    batch.assign(std::make_move_iterator(line.begin()), std::make_move_iterator(end));
    line.erase(line.begin(), end);
  }
  serve_(door, name, batch);
  const std::scoped_lock lock(mutex_);
  if (lines_.at(name).empty()) {
    lines_.erase(name);
  } else {
    push([this, name](PgDoor& next) { serve(next, name); });
  }
}

bool PgLines::work(PgDoor& door) {
  std::unique_lock lock(mutex_);
  ++workers_;
  while (true) {
    given_.wait(lock,
                [this] { return is_stopped_ || !tasks_.empty() || (is_closing_ && busy_ == 0); });
    if (is_stopped_ || tasks_.empty()) break;
    const Task task = std::move(tasks_.front());
    tasks_.pop_front();
    ++busy_;
    lock.unlock();
    task(door);
    lock.lock();
    --busy_;
    if (is_closing_ && busy_ == 0 && tasks_.empty()) given_.notify_all();
  }
  return --workers_ == 0;
}

void PgLines::close() {
  const std::scoped_lock lock(mutex_);
  is_closing_ = true;
  given_.notify_all();
}

void PgLines::stop() {
  const std::scoped_lock lock(mutex_);
  is_stopped_ = true;
  given_.notify_all();
}

}  // namespace holdfast::server
