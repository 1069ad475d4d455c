#include "damacy/fetch/readers.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include "damacy/core/checked.h"
#include "damacy/core/limits.h"

namespace damacy {
namespace {

constexpr std::size_t kQuestionsOfALane = 2;         // to wake a thread takes as long as many an answer
constexpr auto kPatience = std::chrono::seconds(2);  // of a close, with storage that does not answer

// Runs blocking calls one after the other until none is left; other workers take from the same queue.
class Lane final : public Request {
 public:
  struct Questions {
    std::shared_ptr<StorageWork> work;
    std::size_t count;
    std::function<void()> all_told;
    Engine& engine;
    std::atomic<std::size_t> next{0};
    std::atomic<std::size_t> told{0};
    Questions(std::shared_ptr<StorageWork> work_of, std::size_t count_of, std::function<void()> then, Engine& on)
        : work(std::move(work_of)), count(count_of), all_told(std::move(then)), engine(on) {}

    void tell() {
      if (++told == count) all_told();
    }
    void give_up_rest(const Error& why) noexcept {
      for (std::size_t i = next++; i < count; i = next++) {
        work->give_up(i, why);
        tell();
      }
    }
  };
  explicit Lane(std::shared_ptr<Questions> questions) : questions_(std::move(questions)) {}

  Part prepare(std::size_t, std::stop_token stop) override {
    while (!stop.stop_requested() && (now_ = questions_->next++) < questions_->count) {
      asking_ = true;
      questions_->work->ask(now_);
      asking_ = false;
      questions_->tell();
    }
    if (stop.stop_requested())
      questions_->give_up_rest(Error(Status::shutdown, "the pipeline was closed meanwhile", "closed"));
    return {};
  }
  void complete(std::size_t, const Part&, const Error* failure) noexcept override {
    if (failure != nullptr) questions_->give_up_rest(*failure);
  }
  bool can_be_abandoned() const noexcept override { return true; }
  // The others go on, on another thread.
  void abandon(const Error& why) noexcept override {
    if (asking_) {
      questions_->work->give_up(now_, why);
      questions_->tell();
    }
    if (questions_->next >= questions_->count) return;
    try {
      questions_->engine.submit_urgent(std::make_unique<Lane>(questions_));
    } catch (const std::bad_alloc&) {
      questions_->give_up_rest(why);
    }
  }

 private:
  const std::shared_ptr<Questions> questions_;
  std::size_t now_ = 0;
  bool asking_ = false;  // the question now_, which is not told yet
};

}  // namespace

Readers::Readers(const ThreadCounts& threads, const std::shared_ptr<const Clock>& clock)
    : contexts_(threads.readers),
      at_once_(threads.readers_at_once),
      askers_(make_thread_engine(threads.blocking, threads.blocking, clock)),
      engine_(make_thread_engine(contexts_.size(), at_once_, clock)) {}

void Readers::ask(std::shared_ptr<StorageWork> work, std::size_t count, std::size_t lanes,
                  std::function<void()> all_told) {
  if (count == 0) return all_told();
  const auto questions = std::make_shared<Lane::Questions>(std::move(work), count, std::move(all_told), *askers_);
  askers_->submit_urgent(std::make_unique<Lane>(questions));  // does without readers: they may all be busy
  try {
    for (std::size_t i = 1; i < std::min({ceil_div(count, kQuestionsOfALane), lanes, contexts_.size() + 1}); ++i)
      engine_->submit_urgent(std::make_unique<Lane>(questions));
  } catch (const std::bad_alloc&) {  // fewer take part
  }
}

void Readers::abandon_overdue() noexcept {
  constexpr auto kDeadline = std::chrono::seconds(Limits::storage_operation_s);
  const bool stuck = askers_->abandon_overdue(kDeadline, stuck_);
  stuck_ = engine_->abandon_overdue(kDeadline, stuck) || stuck;
}

bool Readers::stop_reading(const std::shared_ptr<void>& keep) noexcept {
  patience_ = std::chrono::steady_clock::now() + kPatience;
  return engine_->stop(patience_, keep);
}

bool Readers::stop(const std::shared_ptr<void>& keep) noexcept {
  if (patience_ == std::chrono::steady_clock::time_point{}) stop_reading(keep);
  const bool readers = engine_->stop(patience_, keep);
  return askers_->stop(patience_, keep) || readers;
}

}  // namespace damacy
