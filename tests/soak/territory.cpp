// How requests are made up, how they end, and what must hold then.
#include "soak/territory.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <latch>

#include <fcntl.h>
#include <unistd.h>

#include "damacy/core/error.h"
#include "damacy/device/host_device.h"
#include "damacy/fileio/file.h"
#include "soak/random_calls.h"

namespace damacy::soak {
namespace {

constexpr std::uint64_t kMostBytes = 300'000;  // of a file
constexpr std::size_t kAlignment = 4096;

struct Interrupted {};

std::uint64_t reached(const std::vector<std::byte>& model, std::uint64_t offset, std::uint64_t size) {
  return offset >= model.size() ? 0 : std::min<std::uint64_t>(size, model.size() - offset);
}

bool same(const std::byte* a, const std::byte* b, std::uint64_t size) {
  return size == 0 || std::memcmp(a, b, size) == 0;
}

void fill_at_random(std::span<std::byte> bytes, std::mt19937_64& random) {
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(std::uint64_t)) {
    const std::uint64_t some = random();
    std::memcpy(bytes.data() + at, &some, std::min(sizeof some, bytes.size() - at));
  }
}

}  // namespace

void found(const std::string& what) {
  std::fprintf(stderr, "file_io_soak: FOUND: %s\n", what.c_str());
  std::abort();
}

Totals& totals() {
  static Totals all;
  return all;
}

struct Territory::Asked {
  std::string how;  // the file was opened
  Direction direction = Direction::read;
  std::vector<Piece> pieces;
  bool is_gather = false;
  bool in_stream = false;
  std::uint64_t task_size = 0;
  std::shared_ptr<OnDevice> device;  // null: host memory
  HostBuffer memory;
  std::byte before{};                 // what a read's memory holds before
  std::vector<std::byte> at_the_end;  // of the memory, when the future had ended
  std::shared_ptr<Operation> operation;
  std::shared_ptr<std::latch> called_back = std::make_shared<std::latch>(1);
  std::uint64_t base = 0;  // append files
};

// -- meddlers --------------------------------------------------------------------------------------------------------

void Mailbox::put(std::shared_ptr<Operation> operation) {
  const std::lock_guard lock(mutex_);
  operations_[next_operation_++ % kKept].swap(operation);
}

void Mailbox::put(std::shared_ptr<File> file) {
  const std::lock_guard lock(mutex_);
  files_[next_file_++ % kKept].swap(file);
}

void Mailbox::clear() {
  const std::lock_guard lock(mutex_);
  operations_ = {};
  files_ = {};
}

void Mailbox::meddle(std::mt19937_64& random) {
  std::shared_ptr<Operation> operation;
  std::shared_ptr<File> file;
  {
    const std::lock_guard lock(mutex_);
    operation = operations_[random() % kKept];
    if (random() % 64 == 0) file = files_[random() % kKept];
  }
  if (file != nullptr) file->close(/*wait=*/random() % 2 == 0);
  if (operation == nullptr) return;
  switch (random() % 6) {
    case 0:
      operation->drop_rest(/*as_cancelled=*/true);
      break;
    case 1:
      operation->wait(std::chrono::microseconds(random() % 300));
      break;
    case 2:
      operation->wait(std::nullopt);
      require(operation->done(), "a future that was waited for is not done");
      break;
    case 3:
      operation->run_one();
      break;
    case 4:
      operation->when_done([operation] { require(operation->parts_ended(), "callback before the end"); });
      break;
    default:
      static_cast<void>(operation->done());
      static_cast<void>(operation->counts());
  }
}

// -- making requests up ----------------------------------------------------------------------------------------------

Territory::Territory(std::string path, std::uint64_t seed, Mailbox& mailbox)
    : path_(std::move(path)), random_(seed), mailbox_(mailbox), model_(below(kMostBytes)) {
  fill_at_random(model_, random_);
  std::ofstream(path_, std::ios::binary).write(reinterpret_cast<const char*>(model_.data()), std::ssize(model_));
  for (const auto kind : {HostOrder::Kind::eager, HostOrder::Kind::lazy, HostOrder::Kind::random})
    devices_.push_back(make_host_device({.kind = kind, .seed = seed, .guard = false}));
}

std::shared_ptr<File> Territory::open(bool writing) {
  FileOptions options;
  options.engine = one_in(2) ? EngineChoice::automatic : one_in(2) ? EngineChoice::pread : EngineChoice::io_uring;
  options.direct_io = one_in(3) ? DirectIo::on : DirectIo::automatic;
  options.compat_mode = one_in(4) ? CompatMode::off : CompatMode::on;  // off: the fake cuFile
  const char* flags = writing ? (one_in(4) ? "a+" : one_in(12) ? "w+" : "r+") : (one_in(2) ? "r" : "r+");
  if (flags[0] == 'w') model_.clear();
  std::shared_ptr<detail::FileCalls> calls;
  if (one_in(3)) calls = std::make_shared<RandomCalls>(random_());
  auto file = File::open({path_, AT_FDCWD}, OpenFlags::parse(flags), options, std::move(calls));
  if (one_in(3)) mailbox_.put(file);
  return file;
}

// Pieces of one request: anywhere when reading, behind one another and apart when writing.
std::vector<std::unique_ptr<Territory::Asked>> Territory::ask(bool writing) {
  std::vector<std::unique_ptr<Asked>> all;
  std::uint64_t at = below(50'000);
  for (std::uint64_t left = 1 + below(4); left > 0; --left) {
    auto asked = std::make_unique<Asked>();
    asked->direction = writing ? Direction::write : Direction::read;
    asked->is_gather = one_in(2);
    asked->task_size = one_in(3) ? 0 : 1 + below(one_in(2) ? 3000 : 70'000);
    if (!one_in(3)) asked->device = std::make_shared<OnDevice>(OnDevice{devices_[below(devices_.size())], {}});
    asked->in_stream = asked->device != nullptr && !asked->is_gather && one_in(3);
    std::uint64_t bytes = 0;
    const std::uint64_t most = one_in(4) ? 60'000 : 6000;
    for (std::uint64_t n = asked->is_gather ? 1 + below(20) : 1 + below(asked->in_stream ? 1 : 3); n > 0; --n) {
      if (asked->is_gather) at = writing ? at + below(3000) : below(kMostBytes + 5000);
      const std::uint64_t size = one_in(10) ? 0 : below(most);
      asked->pieces.push_back({at, size, nullptr});
      at += size;
      bytes += size;
    }
    make_memory(*asked, bytes);
    all.push_back(std::move(asked));
    at = writing ? at + below(5000) : below(kMostBytes);
  }
  return all;
}

// Pieces lie one behind the other from a place that is aligned, or not.
void Territory::make_memory(Asked& asked, std::uint64_t bytes) {
  const auto alloc = asked.device ? asked.device->device->device_memory() : devices_[0]->pinned_memory();
  asked.memory = HostBuffer(alloc, bytes + 2 * kAlignment);
  asked.before = static_cast<std::byte>(random_());
  if (asked.direction == Direction::read)
    std::memset(asked.memory.data(), std::to_integer<int>(asked.before), asked.memory.size());
  else
    fill_at_random(asked.memory.bytes(), random_);
  std::byte* data =
      asked.memory.data() + (kAlignment - reinterpret_cast<std::uintptr_t>(asked.memory.data()) % kAlignment);
  if (one_in(2)) data += below(kAlignment);
  for (Piece& piece : asked.pieces) {
    piece.data = data;
    data += piece.size;
  }
}

void Territory::begin_gather_of(Asked& asked, const std::shared_ptr<File>& file) {
  GatherRequest gather;
  gather.files = {file};
  gather.direction = asked.direction;
  gather.options.task_size = asked.task_size;
  if (asked.device) gather.devices = {asked.device};
  for (const Piece& piece : asked.pieces)
    gather.ranges.push_back({0, asked.device ? 1U : 0U, piece.offset, piece.size, piece.data});
  asked.operation = begin_gather(std::move(gather));
}

bool Territory::begin(Asked& asked, const std::shared_ptr<File>& file) {
  asked.how = std::string(", engine ") + std::string(name_of(file->engine())) +
              (file->wants_direct(/*writing=*/false) ? ", direct" : "") +
              (file->compat_mode() == CompatMode::off ? ", cuFile" : "") +
              (file->has_real_calls() ? "" : ", random calls");
  asked.base = asked.direction == Direction::write ? file->append_base() : 0;
  try {
    if (asked.is_gather) {
      begin_gather_of(asked, file);
    } else {
      FileRequest request{file, asked.direction, asked.pieces[0].offset, {}, {asked.task_size, false}};
      for (const Piece& piece : asked.pieces) request.memory.push_back({piece.data, piece.size, asked.device});
      asked.operation = asked.in_stream ? begin_in_stream(std::move(request), 0) : begin_request(std::move(request));
    }
  } catch (const FileError& error) {
    require(error.file_kind == FileErrorKind::closed && file->closed(), "refused although the file is open");
    totals().refused += 1;
    return false;
  }
  totals().requests += 1;
  asked.operation->when_done([called_back = asked.called_back] { called_back->count_down(); });
  return true;
}

// -- ending and checking ---------------------------------------------------------------------------------------------

void Territory::end(Asked& asked) {
  Operation& operation = *asked.operation;
  switch (below(7)) {
    case 0:
      operation.drop_rest(/*as_cancelled=*/true);
      break;
    case 1:
      while (!operation.wait(std::chrono::microseconds(below(500)))) {
      }
      break;
    case 2:
      try {
        operation.run_all([this] {
          if (one_in(3)) throw Interrupted{};
        });
      } catch (const Interrupted&) {
      }
      break;
    case 3:  // waits for the callback only
      asked.called_back->wait();
      break;
    case 4:
      operation.wait_parts(std::nullopt, [] {});
      break;
    default:
      break;
  }
  operation.wait(std::nullopt);
  require(operation.done(), "not done after wait");
  asked.at_the_end.assign(asked.memory.bytes().begin(), asked.memory.bytes().end());
}

void Territory::check(Asked& asked) {
  const Operation& operation = *asked.operation;
  bool whole = !operation.cancelled();
  if (operation.cancelled()) totals().cancelled += 1;
  if (const auto error = operation.error()) {
    whole = false;
    totals().failed += 1;
    try {
      std::rethrow_exception(error);
    } catch (const FileError& failed) {
      const bool injected = failed.file_kind == FileErrorKind::io && failed.system_errno() == EIO;
      if (!injected && failed.file_kind != FileErrorKind::closed) found(std::string("an error: ") + failed.what());
    }
  }
  if (asked.direction == Direction::read)
    check_read(asked, whole);
  else
    settle_write(asked, whole);
}

std::string Territory::describe(const Asked& asked, std::size_t piece) const {
  const Piece& p = asked.pieces[piece];
  return "piece " + std::to_string(piece) + " of " + std::to_string(asked.pieces.size()) + ", " +
         std::to_string(p.size) + " bytes at " + std::to_string(p.offset) + " of " + std::to_string(model_.size()) +
         (asked.is_gather ? ", gather" : "") + (asked.in_stream ? ", in stream" : "") +
         (asked.device ? ", on " + asked.device->device->name() : "") + ", parts of " +
         std::to_string(asked.task_size) + asked.how;
}

void Territory::check_read(const Asked& asked, bool whole) {
  const auto counts = asked.operation->counts();
  std::uint64_t should = 0;
  for (std::size_t i = 0; i < asked.pieces.size(); ++i) {
    const Piece& piece = asked.pieces[i];
    const std::uint64_t there = reached(model_, piece.offset, piece.size);
    should += there;
    if (whole && asked.is_gather) require(counts[i] == there, "a range's count");
    if (there == piece.size && same(piece.data, model_.data() + piece.offset, piece.size)) continue;
    for (std::uint64_t b = 0; b < piece.size; ++b) {
      const bool is_old = piece.data[b] == asked.before;
      const bool is_new = b < there && piece.data[b] == model_[piece.offset + b];
      // Windows of a stream request go up whole once the file has failed: as zeros where nothing was read.
      const bool is_zero = asked.in_stream && piece.data[b] == std::byte{0};
      if (whole ? (b < there ? is_new : is_old) : is_old || is_new || is_zero) continue;
      found("byte " + std::to_string(b) + " of " + describe(asked, i) + (whole ? ", whole" : ", not whole"));
    }
  }
  if (whole) require(asked.operation->count() == should, "the count of a read");
  const Piece& last = asked.pieces.back();
  if (whole && last.offset + last.size > model_.size()) totals().short_reads += 1;
}

// What was written whole is in the file; of the rest each byte is the old or the new one.
void Territory::settle_write(const Asked& asked, bool whole) {
  totals().writes += 1;
  auto now = on_disk();
  auto expected = now;
  expected.resize(std::max(now.size(), model_.size()));
  std::copy(model_.begin(), model_.end(), expected.begin());
  std::fill(expected.begin() + std::ssize(model_), expected.end(), std::byte{0});
  require(now.size() >= model_.size(), "a file that shrank");
  for (const Piece& piece : asked.pieces) {
    const std::uint64_t begin = asked.base + piece.offset;
    if (begin + piece.size <= now.size() && same(piece.data, now.data() + begin, piece.size)) {
      std::copy_n(piece.data, piece.size, expected.begin() + static_cast<std::ptrdiff_t>(begin));
      continue;
    }
    for (std::uint64_t b = 0; b < piece.size; ++b) {
      const std::uint64_t at = begin + b;
      if (whole) require(at < now.size() && now[at] == piece.data[b], "a byte that was written");
      if (at >= now.size()) continue;
      require(now[at] == piece.data[b] || now[at] == expected[at], "neither the old byte nor the new one");
      expected[at] = now[at];
    }
  }
  // Requests of the same round that are not settled yet wrote elsewhere: only bytes of this one are taken over.
  model_.resize(std::max(now.size(), model_.size()));
  for (const Piece& piece : asked.pieces) {
    const std::uint64_t begin = asked.base + piece.offset;
    const std::uint64_t there = reached(now, begin, piece.size);
    if (there > 0) std::memcpy(model_.data() + begin, now.data() + begin, there);
  }
}

std::vector<std::byte> Territory::on_disk() const {
  std::ifstream in(path_, std::ios::binary | std::ios::ate);
  std::vector<std::byte> out(static_cast<std::size_t>(in.tellg()));
  in.seekg(0);
  in.read(reinterpret_cast<char*>(out.data()), std::ssize(out));
  return out;
}

void Territory::round() {
  const bool writing = one_in(3);
  auto file = open(writing);
  auto all = ask(writing);
  std::erase_if(all, [&](const auto& asked) { return !begin(*asked, file); });
  for (const auto& asked : all)
    if (one_in(2)) mailbox_.put(asked->operation);
  if (one_in(3)) file->close(/*wait=*/one_in(2));
  if (one_in(3)) file.reset();
  for (const auto& asked : all) {
    if (!one_in(10)) continue;
    asked->operation = nullptr;  // dropped; only the callback reports its end
    asked->called_back->wait();
    totals().dropped += 1;
  }
  for (const auto& asked : all)
    if (asked->operation) end(*asked);
  for (const auto& asked : all)
    if (asked->operation)
      check(*asked);
    else if (writing)
      settle_write(*asked, /*whole=*/false);
  for (const auto& asked : all) asked->called_back->wait();
  for (const auto& asked : all)
    require(asked->at_the_end.empty() || same(asked->at_the_end.data(), asked->memory.data(), asked->at_the_end.size()),
            "memory that changed after the end");
  if (writing) require(on_disk() == model_, "bytes that were not written");
  if (model_.size() <= kMostBytes) return;
  model_.resize(below(kMostBytes));
  if (::truncate(path_.c_str(), std::ssize(model_)) != 0) found("truncate");
}

}  // namespace damacy::soak
