#include "server/pg_door.h"

#include <algorithm>

namespace holdfast::server {
namespace {

using namespace std::chrono_literals;

constexpr auto kFirstPause = 100ms;
constexpr auto kLongestPause = 1000ms;

}  // namespace

std::optional<std::string> PgGate::why_shut() const {
  const std::scoped_lock lock(mutex_);
  if (std::chrono::steady_clock::now() >= shut_until_) return std::nullopt;
  return trouble_;
}

std::optional<std::string> PgGate::trouble() const {
  const std::scoped_lock lock(mutex_);
  return trouble_;
}

void PgGate::opened() {
  const std::scoped_lock lock(mutex_);
  if (trouble_) tell_("the database works again");
  trouble_.reset();
  pause_ = 0ms;
  shut_until_ = {};
}

void PgGate::failed(const std::string& why) {
  const std::scoped_lock lock(mutex_);
  if (!trouble_) tell_("the database cannot be used: " + why);
  trouble_ = why;
  pause_ = std::clamp(pause_ * 2, std::chrono::milliseconds(kFirstPause),
                      std::chrono::milliseconds(kLongestPause));
  shut_until_ = std::chrono::steady_clock::now() + pause_;
}

void PgGate::refused(const std::string& why) {
  const std::scoped_lock lock(mutex_);
  if (!trouble_) tell_("changes are refused: " + why);
  trouble_ = why;
}

PgTold<PgConnection*> PgDoor::connection() {
  if (connection_.is_usable()) return &connection_;
  connection_ = {};
  if (auto why = gate_.why_shut()) return PgError{*why, {}, true};
  auto opened = PgConnection::open(conninfo_);
  if (auto* error = std::get_if<PgError>(&opened)) {
    gate_.failed(error->why);
    return *error;
  }
  connection_ = std::move(std::get<0>(opened));
  gate_.opened();
  return &connection_;
}

}  // namespace holdfast::server
