#pragma once

#include <functional>

namespace holdfast::policy {

/// Runs `work` in a child that nobody waits for: it becomes no zombie, has the null device for its
/// three streams, holds no other file of ours open, and blocks no signal. Returns at once. Where no
/// process can be had, the work is left for the next one.
void run_detached(const std::function<void()>& work);

}  // namespace holdfast::policy
