#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace holdfast::server {

/// A thread for what blocks: one job at a time.
class Writer {
 public:
  Writer() : thread_([this] { work(); }) {}
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  ~Writer() {
    run({});
    thread_.join();
  }

  /// The job before must have been finished or be about to return. An empty one ends the thread.
  void run(std::function<void()> job) {
    std::unique_lock lock(mutex_);
    taken_.wait(lock, [this] { return !has_job_; });
    job_ = std::move(job);
    has_job_ = true;
    given_.notify_one();
  }

 private:
  void work() {
    for (;;) {
      std::function<void()> job;
      {
        std::unique_lock lock(mutex_);
        given_.wait(lock, [this] { return has_job_; });
        job = std::move(job_);
        has_job_ = false;
        taken_.notify_one();
      }
      if (!job) return;
      job();
    }
  }

  std::mutex mutex_;
  std::condition_variable given_, taken_;
  std::function<void()> job_;
  bool has_job_ = false;
  std::thread thread_;
};

}  // namespace holdfast::server
