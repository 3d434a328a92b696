#include "composite/status.h"

#include <charconv>
#include <cstdint>

#include "base/json.h"

namespace holdfast::composite {
namespace {

bool is_dataset(const std::string& id) {
  std::int64_t number = 0;
  const auto [end, ec] = std::from_chars(id.data(), id.data() + id.size(), number);
  return ec == std::errc{} && id == std::to_string(number);
}

/// "name":[item,item], with `put` writing one item.
template <class Items, class Put>
void put_array(std::string& out, std::string_view name, const Items& items, Put put) {
  out += '"';
  out += name;
  out += "\":[";
  bool is_first = true;
  for (const auto& item : items) {
    if (!is_first) out += ',';
    is_first = false;
    put(item);
  }
  out += ']';
}

void put_lock_count(std::string& out, const Status& status) {
  out += "\"lockCount\":" + std::to_string(status.locks.size()) + ',';
}

void put_type_and_count(std::string& out, const LockStatus& lock) {
  out += ",\"type\":\"";
  out += to_word(lock.mode);
  out += "\",\"count\":" + std::to_string(lock.count);
}

}  // namespace

std::string_view to_word(lock::Mode mode) {
  return mode == lock::Mode::exclusive ? "EXCLUSIVE" : "SHARED";
}

std::string to_ids_json(const Status& status) {
  Status datasets = status;
  std::erase_if(datasets.locks, [](const LockStatus& lock) { return !is_dataset(lock.id); });
  std::erase_if(datasets.failures, [](const FailureStatus& f) { return !is_dataset(f.id); });
  std::string out = "{\"opsQueue\":[],";
  put_lock_count(out, datasets);
  put_array(out, "locks", datasets.locks, [&](const LockStatus& lock) {
    out += "{\"id\":" + lock.id;
    put_type_and_count(out, lock);
    out += '}';
  });
  out += ',';
  put_array(out, "failures", datasets.failures, [&](const FailureStatus& f) { out += f.id; });
  return out + '}';
}

std::string to_json(const Status& status) {
  std::string out = "{";
  put_lock_count(out, status);
  put_array(out, "locks", status.locks, [&](const LockStatus& lock) {
    out += "{\"id\":";
    put_json_string(out, lock.id);
    put_type_and_count(out, lock);
    out += ',';
    put_array(out, "holders", lock.holders,
              [&](const std::string& holder) { put_json_string(out, holder); });
    out += '}';
  });
  out += ',';
  put_array(out, "failures", status.failures, [&](const FailureStatus& f) {
    out += "{\"id\":";
    put_json_string(out, f.id);
    out += ",\"why\":";
    put_json_string(out, f.why);
    out += '}';
  });
  return out + '}';
}

}  // namespace holdfast::composite
