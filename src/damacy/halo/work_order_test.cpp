// Exchanges on the lazy host device, where a wait that is missing gives wrong bytes.
#include "damacy/halo/work_order.h"

#include <gtest/gtest.h>

#include <array>

#include "damacy/device/host_device.h"

namespace damacy::halo {
namespace {

constexpr std::int64_t kCells = 64;

std::shared_ptr<const copy::Plan> whole_line() {
  const copy::Slot line{Dtype::i32, {kCells}, {4}, true};
  return copy::compile({line, line}, {{{0, 0, {4}}, {1, 0, {4}}, {kCells}, {}}});
}

using Line = std::array<std::int32_t, kCells>;

std::uint64_t address(Line& line) {
  return reinterpret_cast<std::uint64_t>(line.data());
}

// Work of another owner on a stream.
void write(Stream& stream, Line& line, std::int32_t value) {
  stream.enqueue({[&line, value] { line.fill(value); }, {}});
}

class OnLazyDevice : public ::testing::Test {
 protected:
  std::shared_ptr<Device> device_ = make_host_device({HostOrder::Kind::lazy});
  std::unique_ptr<Stream> stream_ = device_->make_stream();
  std::unique_ptr<Stream> other_ = device_->make_stream();
  std::shared_ptr<const copy::Plan> plan_ = whole_line();
  WorkOrder order_;
  Line field_{}, buffer_{}, received_{};
};

// The device's default stream, and how many waits were enqueued on it.
class DefaultStream final : public Stream {
 public:
  explicit DefaultStream(std::unique_ptr<Stream> stream) : stream_(std::move(stream)) {}
  void copy(std::span<std::byte> dst, std::span<const std::byte> src) override { stream_->copy(dst, src); }
  void fill(std::span<std::byte> dst, std::byte value) override { stream_->fill(dst, value); }
  void host_task(std::function<void()> task) override { stream_->host_task(std::move(task)); }
  void enqueue(Work work) override { stream_->enqueue(std::move(work)); }
  void wait(const Event& event) override {
    ++waits;
    stream_->wait(event);
  }
  Event record(bool timed) override { return stream_->record(timed); }
  std::uint64_t native_handle() const noexcept override { return 0; }
  bool is_default() const noexcept override { return true; }

  int waits = 0;

 private:
  std::unique_ptr<Stream> stream_;
};

TEST_F(OnLazyDevice, packing_follows_a_producer_on_another_stream) {
  write(*other_, field_, 7);
  std::array<Stream*, 1> others{other_.get()};
  order_.run(*stream_, others, {}, 0, plan_, {address(field_), address(buffer_)});
  order_.synchronize();
  EXPECT_EQ(buffer_[kCells - 1], 7);
}

TEST_F(OnLazyDevice, the_other_streams_later_work_follows_the_run) {
  field_.fill(7);
  std::array<Stream*, 1> others{other_.get()};
  order_.run(*stream_, others, {}, 0, plan_, {address(field_), address(buffer_)});
  write(*other_, field_, 9);
  other_->record().wait();
  order_.synchronize();
  EXPECT_EQ(buffer_[0], 7);
}

TEST_F(OnLazyDevice, unpacking_follows_a_receive_on_a_stream_named_after) {
  write(*other_, buffer_, 5);
  std::array<Stream*, 1> after{other_.get()};
  order_.run(*stream_, {}, after, 0, plan_, {address(buffer_), address(field_)});
  order_.synchronize();
  EXPECT_EQ(field_[3], 5);
}

TEST_F(OnLazyDevice, a_run_on_another_stream_follows_the_one_before) {
  write(*stream_, field_, 3);
  order_.run(*stream_, {}, {}, 0, plan_, {address(field_), address(buffer_)});
  order_.run(*other_, {}, {}, 0, plan_, {address(buffer_), address(received_)});
  order_.synchronize();
  EXPECT_EQ(received_[0], 3);
}

TEST_F(OnLazyDevice, a_send_on_another_stream_follows_the_packing) {
  write(*stream_, field_, 4);
  order_.run(*stream_, {}, {}, 0, plan_, {address(field_), address(buffer_)});
  order_.make_wait(*other_);
  other_->copy(std::as_writable_bytes(std::span(received_)), std::as_bytes(std::span(buffer_)));
  other_->record().wait();
  EXPECT_EQ(received_[0], 4);
}

TEST_F(OnLazyDevice, a_returned_buffer_is_written_after_its_last_use) {
  buffer_.fill(1);
  other_->copy(std::as_writable_bytes(std::span(received_)), std::as_bytes(std::span(buffer_)));
  field_.fill(2);
  order_.order_after(other_->record());
  order_.run(*stream_, {}, {}, 0, plan_, {address(field_), address(buffer_)});
  order_.synchronize();
  EXPECT_EQ(buffer_[0], 2);
  EXPECT_EQ(received_[0], 1);
}

TEST_F(OnLazyDevice, nothing_runs_before_a_wait) {
  field_.fill(6);
  order_.run(*stream_, {}, {}, 0, plan_, {address(field_), address(buffer_)});
  EXPECT_EQ(buffer_[0], 0);
  order_.synchronize();
  EXPECT_EQ(buffer_[0], 6);
}

TEST_F(OnLazyDevice, runs_on_the_default_stream_are_in_its_order_and_wait_for_runs_elsewhere) {
  DefaultStream stream(device_->make_stream());
  const auto run_on = [&](Stream& where) { order_.run(where, {}, {}, 0, plan_, {address(field_), address(buffer_)}); };
  run_on(stream);
  run_on(stream);
  EXPECT_EQ(stream.waits, 0);
  run_on(*other_);
  run_on(stream);
  EXPECT_EQ(stream.waits, 1);
  order_.synchronize();
}

TEST_F(OnLazyDevice, a_mark_stays_where_it_was_put) {
  const auto run = [&] { order_.run(*stream_, {}, {}, 0, plan_, {address(field_), address(buffer_)}); };
  run();
  const Event mark = order_.mark();
  run();
  EXPECT_NE(mark.state(), order_.done().state());
  mark.wait();
  order_.synchronize();
}

}  // namespace
}  // namespace damacy::halo
