// Selection reads into devices made of host memory, eager, lazy and random: where a wait is missing, or memory is used
// again too early, they give wrong bytes.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "damacy/copy/block_copy.h"
#include "damacy/core/formatted.h"
#include "damacy/device/host_device.h"
#include "damacy/store/reference_store.h"
#include "fakes/shallow_copier.h"
#include "support/forwarding_device.h"
#include "support/selection_reads.h"

namespace damacy {
namespace {

using testing::HungStore;
using testing::SelectionReads;
using testing::ShallowCopier;

// A device of which one event cannot be recorded.
class UnrecordedDevice final : public testing::ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  std::unique_ptr<Stream> make_stream() override {
    return std::make_unique<UnrecordedStream>(inner().make_stream(), *this);
  }
  void fail_record(int number) { left_ = number; }  // counted from 0
  bool has_failed() const { return left_ < 0; }

 private:
  class UnrecordedStream final : public Stream {
   public:
    UnrecordedStream(std::unique_ptr<Stream> inner, UnrecordedDevice& device)
        : inner_(std::move(inner)), device_(device) {}
    void copy(std::span<std::byte> dst, std::span<const std::byte> src) override { inner_->copy(dst, src); }
    void fill(std::span<std::byte> dst, std::byte value) override { inner_->fill(dst, value); }
    void host_task(std::function<void()> task) override { inner_->host_task(std::move(task)); }
    void enqueue(Work work) override { inner_->enqueue(std::move(work)); }
    void wait(const Event& event) override { inner_->wait(event); }
    Event record(bool timed) override {
      if (device_.left_-- == 0) throw Error(Status::oom, "no event", "memory");
      return inner_->record(timed);
    }
    std::uint64_t native_handle() const noexcept override { return inner_->native_handle(); }

   private:
    const std::unique_ptr<Stream> inner_;
    UnrecordedDevice& device_;
  };
  std::atomic<int> left_{1 << 30};
};

class ReadsOnDevice : public SelectionReads, public ::testing::WithParamInterface<HostOrder::Kind> {
 protected:
  ~ReadsOnDevice() override { reads_.reset(); }  // while there are readers

  struct Options {
    std::size_t slab = 1024;
    std::int64_t host_bytes = 1 << 20;
    std::uint64_t device_from_bytes = 0;
    bool shallow = false;
    std::shared_ptr<Device> device = nullptr;
  };
  DeviceWaves* reads() { return reads(Options{}); }
  DeviceWaves* reads(const Options& options) {
    Config config;
    config.host_buffer_bytes = options.host_bytes;
    config.device_buffer_bytes = 8 << 20;
    Machine machine;
    machine.gpu = true;
    DeviceParts parts{
        plan_memory(config, machine), options.device ? options.device : device_, make_host_stream_decoder(),
        options.shallow ? std::make_unique<ShallowCopier>() : make_host_copier(), options.device_from_bytes};
    parts.plan.waves.slab = options.slab;
    reads_ = std::make_unique<Counted>(std::move(parts));
    return &reads_->waves;
  }

  // A read of the one chunk "x" of `elements` bytes, encoded like this, whose elements go to so many places.
  SelectionRequest chunk_of_bytes(std::string_view codecs, std::int64_t elements, const std::string& encoded,
                                  std::vector<AxisRuns> axes) {
    std::ofstream(dir_.path() / "x", std::ios::binary) << encoded;
    SelectionRequest request;
    request.object = std::make_shared<const Array>(
        "array", nullptr, "", "", Stamp{},
        parse_v3_array(
            formatted(R"({{"zarr_format": 3, "node_type": "array", "data_type": "uint8", "fill_value": 0, )"
                      R"("shape": [{}], "chunk_grid": {{"name": "regular", )"
                      R"("configuration": {{"chunk_shape": [{}]}}}}, "chunk_key_encoding": {{"name": "default"}}, )"
                      R"("codecs": [{{"name": "bytes"}}{}]}})",
                      elements, elements, codecs)),
        std::vector<std::string>{});
    request.store = make_file_store(dir_.path().string(), 8);
    request.items.push_back({"x", std::move(axes)});
    return request;
  }
  void expect_ends_well(SelectionRequest request) {
    const auto done = read(std::move(request));
    ASSERT_FALSE(done->failure()) << done->failure()->what();
  }

  const std::shared_ptr<Device> device_ = make_host_device({.kind = GetParam(), .seed = 3});
  struct Counted {
    explicit Counted(DeviceParts parts) : waves(std::move(parts), board) {}
    StatsBoard board;
    DeviceWaves waves;
  };
  std::unique_ptr<Counted> reads_;
};

TEST_P(ReadsOnDevice, every_element_arrives_in_waves_of_a_few_chunks) {
  SelectionRequest request = whole(std::as_writable_bytes(std::span(out_)));
  request.device = reads();
  std::filesystem::remove(dir_.path() / "c.4.3");
  expect_ends_well(std::move(request));
  for (std::size_t i = 0; i < out_.size(); ++i) {
    const bool is_missing = i / kColumns >= 32 && i % kColumns >= 48;
    ASSERT_EQ(out_[i], is_missing ? 7 : i) << i;
  }
  EXPECT_GE(reads_->board.read().h2d.count, 5);
}

TEST_P(ReadsOnDevice, a_chunk_larger_than_a_slab_goes_up_in_parts) {
  SelectionRequest request = whole(std::as_writable_bytes(std::span(out_)));
  request.device = reads({.slab = 512});
  expect_ends_well(std::move(request));
  expect_whole(out_);
}

TEST_P(ReadsOnDevice, readers_decode_what_a_device_would_not_decode_sooner) {
  SelectionRequest request = whole(std::as_writable_bytes(std::span(out_)));
  request.device = reads({.slab = 4096, .device_from_bytes = out_.size() * 2 + 1});
  std::filesystem::remove(dir_.path() / "c.4.3");
  expect_ends_well(std::move(request));
  EXPECT_EQ(out_.front(), 0);
  EXPECT_EQ(out_.back(), 7);
}

TEST_P(ReadsOnDevice, reads_share_waves) {
  DeviceWaves* const device = reads();
  std::vector<std::vector<std::uint16_t>> outs(6, std::vector<std::uint16_t>(out_.size()));
  std::latch ended(6);
  std::vector<std::shared_ptr<SelectionRead>> all;
  for (auto& out : outs) {
    SelectionRequest request = whole(std::as_writable_bytes(std::span(out)));
    request.device = device;
    all.push_back(std::make_shared<SelectionRead>(*readers_, std::move(request), [&] { ended.count_down(); }));
    all.back()->start();
  }
  ended.wait();
  for (std::size_t i = 0; i < all.size(); ++i) {
    ASSERT_FALSE(all[i]->failure());
    expect_whole(outs[i]);
  }
}

// Two waves that wait for storage keep the device busy. Nothing follows the third read that would start its wave.
TEST_P(ReadsOnDevice, the_last_read_starts_although_the_device_is_busy) {
  SelectionReaders four(4, IndexCache());
  const auto store = std::make_shared<HungStore>(make_file_store(dir_.path().string(), 8));
  store->hang(HungStore::Call::read, "c.1.2", 2);
  DeviceWaves* const device = reads({.slab = 64 << 10});
  std::latch ended(3);
  std::vector<std::shared_ptr<SelectionRead>> all;
  for (int i = 0; i < 3; ++i) {
    SelectionRequest request = whole(std::as_writable_bytes(std::span(out_)));
    if (i < 2) request.store = store;
    request.device = device;
    all.push_back(std::make_shared<SelectionRead>(four, std::move(request), [&] { ended.count_down(); }));
    all.back()->start();
    if (i < 2) store->wait_until_hung(static_cast<std::size_t>(i) + 1);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // by then a third wave that has to be started waits
  store->let_go();
  ended.wait();
  for (const auto& one : all) EXPECT_FALSE(one->failure());
  expect_whole(out_);
  reads_.reset();
}

TEST_P(ReadsOnDevice, work_at_the_destination_comes_first) {
  const HostBuffer out(device_->device_memory(), out_.size() * 2);
  const auto producer = device_->make_stream();
  producer->fill(out.bytes(), std::byte{9});
  SelectionRequest request = whole(out.bytes());
  request.device = reads();
  request.after.push_back(producer->record());
  const std::vector<Event> before = request.after;
  expect_ends_well(std::move(request));
  before.front().wait();
  std::memcpy(out_.data(), out.data(), out.size());
  expect_whole(out_);
}

TEST_P(ReadsOnDevice, a_call_without_an_answer_ends_its_read_alone) {
  const auto store = std::make_shared<HungStore>(make_file_store(dir_.path().string(), 8));
  DeviceWaves* const device = reads();
  for (const auto call : {HungStore::Call::open, HungStore::Call::read}) {
    store->hang(call, "c.1.2", 1);
    SelectionRequest request = whole(std::as_writable_bytes(std::span(out_)));
    request.store = store;
    request.device = device;
    expect_deadline(*read_past_deadline(std::move(request), *store), "c.1.2");
    request = whole(std::as_writable_bytes(std::span(out_)));
    request.device = device;
    expect_ends_well(std::move(request));
    expect_whole(out_);
    store->let_go();
  }
  // The thread that storage held returns its staging memory at some later time. Processes never destroy these waves.
  static auto* const kept = new std::vector<std::unique_ptr<Counted>>;
  device->finish();
  kept->push_back(std::move(reads_));
}

TEST_P(ReadsOnDevice, an_object_that_is_too_short_is_named) {
  std::filesystem::resize_file(dir_.path() / "c.2.1", 100);
  SelectionRequest request = whole(std::as_writable_bytes(std::span(out_)));
  request.device = reads();
  const auto done = read(std::move(request));
  ASSERT_TRUE(done->failure());
  EXPECT_EQ(done->failure()->where().key, "c.2.1");
}

TEST_P(ReadsOnDevice, reads_after_a_stop_fail) {
  DeviceWaves* const device = reads();
  device->finish();
  SelectionRequest request = whole(std::as_writable_bytes(std::span(out_)));
  request.device = device;
  const auto done = read(std::move(request));
  ASSERT_TRUE(done->failure());
  EXPECT_EQ(done->failure()->status(), Status::shutdown);
}

TEST_P(ReadsOnDevice, a_corrupt_chunk_has_the_text_of_the_host_decoder) {
  SelectionRequest request =
      chunk_of_bytes(R"(, {"name": "zstd"})", 1000, std::string(50, 'z'), {{{0, 1, 0, 1, 1000}}});
  std::vector<std::byte> out(1000);
  request.out = out;
  const auto on_host = read(request);
  request.device = reads();
  const auto done = read(std::move(request));
  ASSERT_TRUE(done->failure() && on_host->failure());
  EXPECT_STREQ(done->failure()->what(), on_host->failure()->what());
}

// Blocks of one byte: no device decodes them.
TEST_P(ReadsOnDevice, the_host_decodes_what_a_device_refuses) {
  constexpr std::uint32_t kBytes = 1000, kStart = 16 + 4 * kBytes;
  std::string frame = {2, 1, 0x30, 1};  // versions, lz4, one byte elements
  const auto append = [&](std::uint32_t number) {
    for (int shift = 0; shift < 32; shift += 8) frame += static_cast<char>(number >> shift);
  };
  append(kBytes);
  append(/*blocksize=*/1);
  append(kStart + 5);
  for (std::uint32_t block = 0; block < kBytes; ++block) append(kStart);  // the same for all
  append(1);
  frame += '\5';
  constexpr auto kBlosc =
      R"(, {"name": "blosc", "configuration": {"cname": "lz4", "clevel": 5, "shuffle": "noshuffle", "typesize": 1,
                                               "blocksize": 1}})";
  SelectionRequest request = chunk_of_bytes(kBlosc, kBytes, frame, {{{0, 1, 0, 1, kBytes}}});
  std::vector<std::byte> out(kBytes);
  request.out = out;
  request.device = reads({.slab = 8192});
  expect_ends_well(std::move(request));
  EXPECT_TRUE(std::ranges::all_of(out, [](std::byte value) { return value == std::byte{5}; }));
}

// Objects that are parts of one are located, staged and decoded as those of one run.
TEST_P(ReadsOnDevice, parts_of_one_object_go_where_their_keys_say) {
  constexpr std::int64_t kElements = 100, kDistance = 110;
  const std::vector<std::pair<std::string, std::uint64_t>> parts{{"c0", 2}, {"c1", 0}, {"c2", 1}};
  std::string values, expected;
  for (int i = 0; i < 3 * kDistance; ++i) values.push_back(static_cast<char>('a' + i % 23));
  SelectionRequest request = chunk_of_bytes("", kElements, values, {});
  request.items.clear();
  References references;
  for (const auto& [key, number] : parts) {
    references.add(key, (dir_.path() / "x").string(), References::Range{number * kDistance, kElements});
    request.items.push_back({key, {{{0, 1, static_cast<std::int64_t>(expected.size()), 1, kElements}}}});
    expected += values.substr(number * kDistance, kElements);
  }
  ASSERT_FALSE(references.finish());
  request.store = make_reference_store("references", std::move(references));
  std::string out(expected.size(), '\0');
  request.out = std::as_writable_bytes(std::span(out));
  for (DeviceWaves* const device : {reads(), static_cast<DeviceWaves*>(nullptr)}) {
    std::ranges::fill(out, '\0');
    request.device = device;
    expect_ends_well(request);
    EXPECT_EQ(out, expected);
  }
}

// Each run of one element is a copy of its own.
TEST_P(ReadsOnDevice, copies_that_no_image_holds_are_made_in_portions) {
  constexpr std::int64_t kElements = 4096;
  AxisRuns runs;
  std::string values;
  for (std::int64_t i = 0; i < kElements; ++i) {
    runs.push_back({i, 1, (kElements - 1 - i), 1, 1});
    values += static_cast<char>(i * 7 + i / 251);
  }
  SelectionRequest request = chunk_of_bytes("", kElements, values, {runs});
  std::string out(kElements, '\0');
  request.out = std::as_writable_bytes(std::span(out));
  request.device = reads({.slab = 8192, .host_bytes = 64 << 10, .shallow = true});
  expect_ends_well(std::move(request));
  std::ranges::reverse(values);
  EXPECT_EQ(out, values);
}

// Whichever event it is: what was enqueued before it runs before the read ends, and the caller frees the memory.
TEST_P(ReadsOnDevice, an_event_that_cannot_be_recorded_leaves_no_work_behind) {
  constexpr std::int64_t kElements = 600;
  AxisRuns runs;
  for (std::int64_t i = 0; i < kElements; ++i) runs.push_back({i, 1, kElements - 1 - i, 1, 1});
  const SelectionRequest few_at_a_time = chunk_of_bytes("", kElements, std::string(kElements, 'x'), {runs});
  for (int number = 0;; ++number) {
    const auto device = std::make_shared<UnrecordedDevice>(
        make_host_device({.kind = GetParam(), .seed = static_cast<unsigned>(number)}));
    std::string out(kElements, '\0');
    SelectionRequest request = few_at_a_time;
    request.out = std::as_writable_bytes(std::span(out));
    request.device = reads({.slab = 8192, .host_bytes = 64 << 10, .shallow = true, .device = device});
    device->fail_record(number);
    const auto done = read(std::move(request));
    const std::string at_the_end = out;
    {
      const HostBuffer freed(device->device_memory(), 1);
    }  // all that is enqueued runs
    ASSERT_TRUE(out == at_the_end) << number;
    if (!device->has_failed()) break;
    EXPECT_TRUE(done->failure()) << number;
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, ReadsOnDevice,
                         ::testing::Values(HostOrder::Kind::eager, HostOrder::Kind::lazy, HostOrder::Kind::random),
                         [](const auto& chosen) {
                           using enum HostOrder::Kind;
                           return chosen.param == eager ? "eager" : chosen.param == lazy ? "lazy" : "random";
                         });

}  // namespace
}  // namespace damacy
