#!/usr/bin/env python3
"""Removes one wait of the stream engine, of single reads or of file I/O at a time, or breaks the contract of an
interface: a test on the lazy host device, or the interface's conformance suite, must fail.

    tools/plant_faults.py BUILD [NAME …]     a configured build folder; sources are restored afterwards

Prints a line for each fault, and exits 1 if no test detected one. Knows which lines order the work of a wave and of a
staging block, and some that keep contracts; does not know why.
"""

import pathlib
import sys
from collections.abc import Iterator

from planting import Fault, build, passes, run

FAULTS = [  # name, file in src/damacy, text, and the text that replaces it
    ("decoding does not wait for the copies", "wave/wave_runner.cpp", "  stream.wait(up);\n", ""),
    ("placing does not wait for decoding", "wave/wave_runner.cpp", "  main_->wait(wave.decoded);\n", ""),
    (
        "placing a few at a time does not wait for decoding",
        "wave/direct_writes.cpp",
        "  stream_->wait(first);\n",
        "",
    ),
    ("placing does not wait for the slot's consumers", "wave/wave_runner.cpp", "main_->wait(last_use);\n", ";\n"),
    ("a share retires before it is placed", "wave/wave_runner.cpp", "      share.done.wait();\n", ""),
    ("a repair is not waited for", "wave/direct_writes.cpp", "    stream_->record().wait();\n", ""),
    ("a piece goes up before it is read", "wave/wave.cpp", "piece.open > 0 || ", ""),
    ("a piece goes up while it is filled", "wave/wave.cpp", "!piece.full || ", ""),
    ("staging memory is used again before it is up", "wave/wave_runner.cpp", "      piece.ended.wait();\n", ""),
    (
        "decoding does not wait for half of many copies",
        "wave/wave_runner.cpp",
        "  up_->wait(up_beside_->record());\n",
        "",
    ),
    (
        "placing looks for a block in another place",
        "wave/stage_chunk.cpp",
        "  return address + *shift;",
        "  return address;",
    ),
    (
        "tables of blocks are used before they are read",
        "fetch/readers.cpp",
        "return calls->wait(stop);",
        "return true;",
    ),
    (
        "blocks that a reader decodes are not copied to the wave",
        "wave/wave.cpp",
        "  watcher_.copy_now((*slot_)->destination.bytes().subspan(at, bytes.size()), bytes);\n",
        "",
    ),
    (
        "memory that a hung read keeps is waited for",
        "fetch/chunk_reads.cpp",
        "  if (buffer.memory) buffer.memory->strand",
        "  if (false) buffer.memory->strand",
    ),
    (
        "frames of a wave are not counted",
        "batch/memory_plan.cpp",
        "  waves.frames.image_bytes = frame_images - std::min(frame_images, kImagePadding);\n",
        "",
    ),
    (
        "a list that has no chunk whole shows nothing",
        "wave/wave.cpp",
        "    if (in_list > 0) described",
        "    if (in_list == one.frames.size()) described",
    ),
    (
        "a wave is not made smaller for its frames",
        "wave/wave_former.cpp",
        " <= frame_room_.bytes();",
        " <= kUnlimited;",
    ),
    (
        "portions of placements are not waited for",
        "wave/direct_writes.cpp",
        "  pinned.ready().wait();\n",
        "",
    ),
    ("no reader is kept for what was sent", "store/thread_engine.cpp", "running + 1 >= threads", "running > threads"),
    (
        "a stop does not cancel what was sent",
        "store/thread_engine.cpp",
        "      one->read.reset();\n",
        "",
    ),
    (
        "a stop does not cancel calls to remote stores",
        "store/thread_engine.cpp",
        "    for (const auto& worker : workers_) worker->watch.cancel_remote();\n",
        "",
    ),
    (
        "a head that was cut counts as an answer",
        "store/http/transfer.cpp",
        "  if (!head_.is_complete) head_ = Head();",
        "  ",
    ),
    (
        "a cancelled transfer is not waited for",
        "store/http/transfer.cpp",
        "  lock.lock();\n  changed_.wait(lock, [this]() DAMACY_REQUIRES(mutex_) { return !is_under_way_; });\n",
        "",
    ),
    (
        "requests to an origin are not limited",
        "store/http/net_threads.cpp",
        "there.under_way < there.window.size()",
        "true",
    ),
    ("a network thread that waits is not woken", "store/http/net_threads.cpp", "  worker.reactor.listen();\n", ""),
    ("a reader is woken once", "store/thread_engine.cpp", "      is_waking = false;\n", ""),
    ("a wave goes before its reads ended", "wave/wave.cpp", "  if (sealed_ && open_ranges_ == 0)", "  if (sealed_)"),
    (
        "a slot is lent without its consumers' work",
        "batch/slots.cpp",
        "    loan->ready_ = std::move(use.last.fences);\n",
        "",
    ),
    (
        "a failed batch drops what its slot waits for",
        "batch/slots.cpp",
        "last.fences = std::move(loan.ready_);\n",
        ";\n",
    ),
    (
        "memory of an added slot goes before its last use",
        "batch/slots_growth.cpp",
        "    memory.ordered.free_after(std::move(use.last.fences));\n",
        "",
    ),
]
SHARED_DECODE_FAULTS = [  # batches that share the decodes of a device
    (
        "the memory of a wave is lent while others place from it",
        "wave/wave.cpp",
        "    if (--holders_ > 0) return;\n",
        "    if (--holders_ > 100) return;\n",
    ),
    (
        "what those need who share a decode is not decoded",
        "wave/stage_chunk.cpp",
        "  return chunk.decode ? chunk.decode->begin(std::move(needed)) : needed;\n",
        "  if (chunk.decode) static_cast<void>(chunk.decode->begin(needed));\n  return needed;\n",
    ),
    (
        "a wave holds so many others that none is left to wait for",
        "wave/wave_former.h",
        "kShareHeld = 3;",
        "kShareHeld = 1;",
    ),
    (
        "what is kept behind a chunk that no wave holds is added to the wave before",
        "wave/wave_former.cpp",
        "if (!has_room || of_request != wave_.get() || (request && request->is_full())) submit();",
        "if (request && request->is_full()) submit();",
    ),
    (
        "a wave that retired is joined",
        "wave/wave.cpp",
        "  if (has_retired_) return false;\n",
        "",
    ),
    (
        "the stamps of an object are compared before a shared read ends",
        "wave/shared_decode.cpp",
        "std::move(open), PendingRead(*other.chunks)});",
        "std::move(open), std::nullopt});",
    ),
    (
        "placements without an image do not wait for an earlier wave",
        "wave/wave_runner.cpp",
        "wave.places_from()) others.push_back(earlier->decoded);",
        "wave.places_from()) static_cast<void>(earlier);",
    ),
    (
        "what joins does not count as decoded by the device",
        "wave/wave_former.cpp",
        "    decoded_joined_ += bytes;",
        "    decoded_joined_ += 0;",
    ),
    (
        "a chunk without a version is shared",
        "wave/wave_former.cpp",
        "|| !staged.chunks->wants().chunks[staged.chunk].is_versioned) return;",
        ") return;",
    ),
    (
        "what the host decodes after all is placed for one job",
        "wave/wave_runner.cpp",
        "return chunk.is_joined ? chunk.decode->is_redone() : chunk.redo.load();",
        "return chunk.is_joined ? false : chunk.redo.load();",
    ),
    (
        "the host decodes for all jobs only what the first one needs",
        "wave/wave_runner.cpp",
        "  const auto failure = failure_of([&] { direct_.decode_on_host(decodes, chunk); });",
        "  const auto failure = failure_of([&] { if (!chunk.is_joined) direct_.decode_on_host(decodes, chunk); });",
    ),
]
DEVICE_READ_FAULTS = [  # single reads of zarr-python, and device arrays
    (
        "a read into a device ends before it is formed",
        "wave/device_waves.cpp",
        "queued.tasks.push_back(one->new_task());",
        "continue;",
    ),
    (
        "work at the destination of a read is not waited for",
        "single/selection_job.h",
        "override { return request.after; }",
        "override { return {}; }",
    ),
    (
        "the last waves of reads are not sealed",
        "wave/device_waves.cpp",
        "  if (is_last)\n    seal();\n",
        "  if (is_last)\n    end_group();\n",
    ),
    (
        "a wave does not keep the job of its chunks",
        "wave/wave.cpp",
        "({chunks, chunks->new_task()});",
        "({chunks, {}});",
    ),
    ("copies do not begin where the output does", "single/selection_read.cpp", "job_->out_begin()", "0"),
    ("elements are not counted", "fetch/host_sink.cpp", "    to.placed(use.part, use.elements());\n", ""),
    ("a copy up or down returns before it is made", "copy/device_queue.cpp", "  stream_->record().wait();\n", ""),
    ("a copy is described anew before it was made", "copy/placement.cpp", "  pinned.ready().wait();\n", ""),
    ("a queue does not wait for others' work", "copy/device_queue.cpp", "  stream_->wait(event);\n", ""),
]
SLOT_WAIT = "    if (slot_->ready().ready()) return;\n    slot_->ready().wait();\n"
PRODUCER_WAIT = "    awaited_.push_back(on.before);\n"
GROUP_FAILS = "  } catch (...) {\n    staged_->fail(std::current_exception());\n  }\n  staged_.reset();\n"
FILE_FAULTS = [  # file I/O
    ("a slot is filled before it was copied", "fileio/staged_runs.cpp", SLOT_WAIT, "    return;\n"),
    ("copies do not wait for the producer", "fileio/staged_runs.cpp", PRODUCER_WAIT, ""),
    (
        "an event stands for one of another stream",
        "fileio/staged_runs.cpp",
        "on.on_legacy_by != std::thread::id() && ",
        "",
    ),
    (
        "each small read wakes a worker",
        "fileio/io_pool.cpp",
        "  if (small_is_slow_) return false;\n",
        "  return false;\n",
    ),
    (
        "a thread takes all small reads that wait, and leaves busy ones no share",
        "fileio/io_pool.cpp",
        "waiting.size() / (small_work_.size() + 1)",
        "waiting.size()",
    ),
    (
        "a caller that waits takes its own read alone",
        "fileio/io_pool.cpp",
        "paused_ || small_is_slow_;\n",
        "true;\n",
    ),
    (
        "a caller that waits takes reads of a paused pool",
        "fileio/io_pool.cpp",
        "paused_ || small_is_slow_;\n",
        "small_is_slow_;\n",
    ),
    (
        "what a batch counts is lost",
        "fileio/count_batch.cpp",
        "  add();\n  current() = before_;\n",
        "  current() = before_;\n",
    ),
    (
        "what a batch counts is the last file's",
        "fileio/count_batch.cpp",
        "  add();\n  file_ = &file;\n",
        "  file_ = &file;\n",
    ),
    ("a slot is written before it was filled", "fileio/staged_runs.cpp", "      now.slot->ready().wait();\n", ""),
    ("copies are not reported", "fileio/staged_runs.cpp", "    if (has_copied_) report();\n", ""),
    ("a group leaves copies out", "fileio/staged_runs.cpp", "    staged_->flush();\n", ""),
    (
        "a small read takes bytes of another place",
        "fileio/staged_runs.cpp",
        "run.offset == ahead_.offset && size_of(run)",
        "size_of(run)",
    ),
    (
        "a small read takes the bytes of another file",
        "fileio/staged_runs.cpp",
        "next.file == read.file && next.offset",
        "next.offset",
    ),
    (
        "an error behind a small read is its own",
        "fileio/staged_runs.cpp",
        "      if (own < some) {  // an error",
        "      if (own < some || moved.error != 0) {  // an error",
    ),
    (
        "a group hides that its copies failed",
        "fileio/staged_runs.cpp",
        GROUP_FAILS,
        "  } catch (...) {\n  }\n  staged_.reset();\n",
    ),
    ("a request ends before its copies", "fileio/operation.cpp", "        event.wait();\n", ""),
    (
        "a timed wait ends before the copies",
        "fileio/operation.cpp",
        "      for (int asked = 0; !event.ready(); ++asked) {\n",
        "      for (int asked = 0; false; ++asked) {\n",
    ),
    ("done() does not check the copies", "fileio/operation.cpp", "      if (!event.ready()) return false;\n", ";\n"),
    ("callbacks come before the copies", "fileio/operation.cpp", "  await_copies(std::nullopt, {});\n", ""),
    ("a stream request does not wait", "fileio/stream_requests.cpp", "    block->stream().wait(on.before);\n", ""),
    (
        "a stream request ends at once",
        "fileio/stream_requests.cpp",
        "      operation.copies_until(slot.ready());\n",
        "",
    ),
    (
        "a gather does not wait for what was queued meanwhile",
        "fileio/gather_requests.cpp",
        "  for (std::size_t i = 0; i < request.streams.size(); ++i)\n",
        "  for (std::size_t i = 0; false; ++i)\n",
    ),
    ("a host function ends its file", "fileio/stream_requests.cpp", "      let_go(*share);\n", ""),
    ("cuFile does not wait for the producer", "fileio/cufile_engine.cpp", "  slice.device->before.wait();", "  "),
    ("cuFile's call is not waited for", "fileio/cufile_engine.cpp", "  stream->record().wait();\n", ""),
]
SUITE_FAULTS = [  # in implementations of interfaces; the conformance suites must notice them
    ("a task that is replaced does not end", "core/task.h", "    Task before(std::move(*this));\n", ""),
    ("a task that moved ends twice", "core/task.h", "job = std::move(job_);", "job = job_;"),
    ("a manual clock forgets the time before", "core/clock.h", "now_ += by.count()", "now_ = by.count()"),
    (
        "a clock counts microseconds",
        "core/clock.h",
        "::now().time_since_epoch();",
        "::now().time_since_epoch() / 1000;",
    ),
    ("a failed allocation is handed out", "device/alloc.cpp", "throw no_memory(bytes, errno)", "return nullptr"),
    (
        "memory in order goes before its last use",
        "device/host_device.cpp",
        "for (const Event& use : after) stream_.wait(use);",
        "",
    ),
    (
        "memory in order waits for its first use only",
        "device/host_device.cpp",
        "for (const Event& use : after) stream_.wait(use);",
        "if (!after.empty()) stream_.wait(after.front());",
    ),
    ("a stream does not wait", "device/host_device.cpp", "    add({nullptr, std::move(awaited)});\n", ""),
    ("an object put again keeps its stamp", "store/memory_store.cpp", "  ++puts_;\n", ""),
    (
        "urgent requests wait their turn",
        "store/thread_engine.cpp",
        "urgent.empty() ? waiting : urgent",
        "waiting.empty() ? urgent : waiting",
    ),
    ("a stopped engine keeps nothing", "store/thread_engine.cpp", "shared_->keep = std::move(keep)", "keep.reset()"),
    (
        "a wave has one status word",
        "codec/host_stream_decoder.cpp",
        "memory.status.data() + 4 * i, &word",
        "memory.status.data(), &word",
    ),
    (
        "a list of frames has no limit",
        "codec/host_stream_decoder.cpp",
        "    if (frames_.size() >= most_) return {};\n",
        "",
    ),
    (
        "placing reads its list late",
        "copy/host_copier.cpp",
        "stream.enqueue({[image, deep] {",
        "stream.enqueue({[&list, image, deep] { if (list.size() == 0) return;",
    ),
    ("the last portion of placements is dropped", "copy/placement.cpp", "  end_portion(1);\n", ""),
    (
        "a stop drops what was held back",
        "wave/device_waves.cpp",
        "  former_.seal();\n  runner_.finish();",
        "  runner_.finish();",
    ),
    (
        "a row is not moved",
        "batch/worker_engine.cpp",
        "  std::ranges::copy(from, to.begin());\n",
        "",
    ),
    (
        "only the first array's row is moved",
        "batch/batch_job.cpp",
        "array < layout().arrays().size(); ++array)\n    writer_->move_row",
        "array < 1; ++array)\n    writer_->move_row",
    ),
    (
        "only the failed part of a row is filled",
        "batch/batch_job.cpp",
        "!skip && part < (row + 1) * parts; ++part) writer_->fill_part(*this, part);",
        "!skip && part < (row + 1) * parts; ++part)\n    if (errors[part]) writer_->fill_part(*this, part);",
    ),
    (
        "arrays do not begin behind the one before",
        "batch/batch_layout.cpp",
        "first.parts, slot_bytes_, of_row * bytes}",
        "first.parts, 0, of_row * bytes}",
    ),
]
FINISH_FAULTS = [
    (
        "a product and a sum are fused",
        "copy/finish.h",
        "  return x * scale + offset;\n",
        "  return __builtin_fma(x, scale, offset);\n",
    ),
    (
        "elements in f64 do not go by way of f32",
        "copy/detail/finish_copy.cpp",
        "      if (is_narrow(to_)) become(Dtype::f32);\n",
        "",
    ),
    (
        "missing elements stay",
        "copy/detail/finish_copy.cpp",
        "    if (found[i]) std::memcpy",
        "    if (false) std::memcpy",
    ),
    (
        "the last block of a copy is as long as the others",
        "copy/detail/finish_copy.cpp",
        "block.axes[0].extent = std::min(step_, cut.extent - i);",
        "block.axes[0].extent = i + step_ <= cut.extent ? step_ : 1;",
    ),
    ("reflection repeats the edge", "plan/part_placing.cpp", "2 * (size - 1) - at;", "2 * size - 1 - at;"),
    (
        "a run that falls begins at its first index",
        "plan/selection.cpp",
        "runs.push_back({from[end - 1], -step, begin + (count - 1) * to_step, -to_step, count});",
        "runs.push_back({from[end - 1], -step, begin, to_step, count});",
    ),
    (
        "constants of a later axis win",
        "plan/part_placing.cpp",
        "const bool is_inside = i < at &&",
        "const bool is_inside = i > at &&",
    ),
    (
        "every channel has the first finish",
        "plan/selection.cpp",
        "copy.op.finish += run.finish;",
        "copy.op.finish += 0;",
    ),
    (
        "a flipped axis begins at its start",
        "pipeline/row_axes.cpp",
        "row.begin += (axis.extent - 1) * stride;",
        "row.begin += 0;",
    ),
    (
        "constants of a row are not placed",
        "plan/batch_plan.cpp",
        "parts[part].placing->has_constants();",
        "parts[part].placing->has_constants() && false;",
    ),
    ("a failed row is filled by its box", "batch/batch_job.cpp", "if (planned.placing != nullptr)", "if (false)"),
]
CACHE_FAULTS = [
    (
        "a kept chunk is used before it is whole",
        "cache/chunk_cache.cpp",
        "if (found && entries_[*found].is_whole && ",
        "if (found && ",
    ),
    (
        "a kept chunk is overwritten while it is read",
        "cache/chunk_cache.cpp",
        "entry.holds.load(std::memory_order_acquire) == 0",
        "entry.holds.load(std::memory_order_acquire) < 1000",
    ),
    (
        "a chunk that is being filled makes room",
        "cache/chunk_cache.cpp",
        "return entry.is_whole && entry.holds",
        "return entry.holds",
    ),
    (
        "a kept chunk of another version is used",
        "batch/chunk_tasks.cpp",
        "words_of(object->stamp())",
        "words_of({})",
    ),
    (
        "a chunk is kept on the device before it was copied there",
        "wave/stage_chunk.cpp",
        "chunk.keep_on_device.emplace(std::move(room));",
        "static_cast<void>(room.publish());",
    ),
    (
        "chunks are decoded before they came from pinned memory",
        "wave/wave_runner.cpp",
        "if (!up_->copy_many(std::span<const MemoryCopy>(copies).subspan(half.size())) "
        "|| !up_beside_->copy_many(half)) return;",
        "if (!main_->copy_many(copies)) return;",
    ),
    (
        "a chunk is copied to the cache before it is on the device",
        "wave/wave_runner.cpp",
        "stream.wait(up);\n  copy_encoded(stream, wave.to_cache);",
        "copy_encoded(stream, wave.to_cache);\n  stream.wait(up);",
    ),
    (
        "a chunk that the device could not decode is kept",
        "wave/wave_runner.cpp",
        "if (chunk.redo || chunk.failed) continue;\n    if (chunk.keep_on_host)",
        "if (chunk.keep_on_host)",
    ),
]
VERIFY_FAULTS = [
    ("the end of a range of chunks starts no other", "single/verifier.cpp", "    submit_next();\n  }\n", "  }\n"),
    ("a chunk that is not decoded is good", "single/verifier.cpp", "if (!result.ok()) throw decode_error(result);", ""),
    (
        "a cancelled check waits for its chunks",
        "single/verifier.cpp",
        "override { return &job_->cancelled(); }",
        "override { return nullptr; }",
    ),
    (
        "the parts around one that hangs are not reported",
        "single/verifier.cpp",
        "place = job_->array->end_of_shard(place)) fail_shard",
        "place = last_) fail_shard",
    ),
]
VERIFYING = "Verifiers*"
SHARED_FAULTS = [
    (
        "a chunk in shared memory is visible before its bytes",
        "cache/shared/shared_cache.cpp",
        "  return {*this, *taken, entries.bytes_of(*taken), entries.note_of(*taken)};\n",
        "  entries.set_whole(*taken);\n  return {*this, *taken, entries.bytes_of(*taken), entries.note_of(*taken)};\n",
    ),
    (
        "a chunk in shared memory makes room while it is held",
        "cache/shared/shared_entries.cpp",
        " || entries_[number].pins.load(std::memory_order_acquire) != 0)\n",
        ")\n",
    ),
    (
        "the lock of a dead process is not taken over",
        "cache/shared/shared_region.cpp",
        "  if (is_alive(holder)) return false;\n",
        "  if (is_alive(holder) || holder != 0) return false;\n",
    ),
    (
        "the index is not made again after its process died",
        "cache/shared/shared_region.cpp",
        "  head().damaged.store(1);\n",
        "",
    ),
    (
        "what a dead process held in shared memory stays held",
        "cache/shared/shared_region.cpp",
        "    entries_.forget(number);\n",
        "",
    ),
    (
        "bytes that were overwritten in shared memory are used",
        "cache/shared/shared_entries.cpp",
        "return entries_[number].state.fetch_add(0, std::memory_order_acq_rel) == state.word();",
        "return entries_[number].state.fetch_add(0, std::memory_order_acq_rel) != state.word() + 1;",
    ),
    (
        "what a dead process filled in shared memory stays in use",
        "cache/shared/shared_entries.cpp",
        "    if (state.tag == Tag::filling && state.process == process) drop(number);\n",
        "",
    ),
    (
        "what a dead process filled in shared memory is whole",
        "cache/shared/shared_entries.cpp",
        "if (state.tag == Tag::filling && state.process == process) drop(number);",
        "if (state.tag == Tag::filling && state.process == process) set_whole(number);",
    ),
    (
        "entries of shared memory are lost when its index is made again",
        "cache/shared/shared_entries.cpp",
        "    entries_[number].next = std::exchange(head().unused, number + 1);\n  }\n",
        "  }\n",
    ),
    (
        "a process that joins does not wait for a slow one",
        "cache/shared/shared_region.cpp",
        "Access::Wait::patient);",
        "Access::Wait::briefly);",
    ),
]
AHEAD_FAULTS = [
    (
        "batches are announced only once the objects of the one before are open",
        "fetch/readers.cpp",
        "    while_waiting();\n",
        "",
    ),
    (
        "a batch without a slot stays announced",
        "batch/batch_planner.cpp",
        "  announced_.erase(&job);\n",
        "",
    ),
    (
        "an object that is known is not asked for its bytes",
        "store/http/http_store.cpp",
        "again && reads > 0 ?",
        "false ?",
    ),
    (
        "an object whose chunk a cache may have is asked for its bytes",
        "batch/batch_planner.cpp",
        "object.again = ahead_->reads_chunks();",
        "object.again = true;",
    ),
    (
        "an object is opened before the bytes that are expected of it",
        "store/http/known_objects.cpp",
        "expected_.contains(name) || asking_",
        "asking_",
    ),
    (
        "an object is opened while another thread takes its bytes",
        "store/http/known_objects.cpp",
        "expected_.contains(name) || asking_.contains(name)",
        "expected_.contains(name)",
    ),
    (
        "an empty object is believed without a request",
        "store/http/known_objects.cpp",
        "known->stamp().size == 0 || ",
        "",
    ),
    (
        "an object is expected of which nothing was asked for",
        "store/http/http_store.cpp",
        "known->try_read(expected->head.bytes())",
        "known->start_read(0, expected->head.bytes(), [] {})",
    ),
    (
        "objects of one batch are asked for by two threads at a time",
        "batch/announcement.cpp",
        "    while (is_asking_) StorageWatch::wait_behind([&] { asking_ended_.wait(lock); });\n",
        "",
    ),
    (
        "later batches are announced while an object of this one is asked for",
        "batch/announcement.cpp",
        "return is_asking_ || asked_ <",
        "return asked_ <",
    ),
    (
        "reads that were not announced end those of other batches",
        "batch/announcement.cpp",
        "  reads_.keep_first(asked());\n",
        "",
    ),
    (
        "what was not announced of a planned batch is not asked for",
        "batch/chunk_tasks.cpp",
        "    while (announcement_ && announcement_->has_more()) announcement_->ask_next();\n",
        "",
    ),
    (
        "documents are asked for without memory for their answers",
        "zarr/documents_ahead.cpp",
        "  if ((documents_ + order.keys.size()) * answer_bytes_ > wish_.bytes) return std::nullopt;\n",
        "",
    ),
    (
        "a closed pipeline keeps what it asked for ahead",
        "zarr/documents_ahead.cpp",
        "    for (const std::string& key : node.keys) store->unexpect(key);\n",
        "",
    ),
    (
        "what is not wanted any more is asked for",
        "store/http/http_store.cpp",
        "known().remove_read(key).reset();",
        "static_cast<void>(key);",
    ),
    (
        "a decoded chunk goes while batches want it",
        "batch/decoded_ahead.cpp",
        "    if (--at->second.batches > 0) continue;\n",
        "    --at->second.batches;\n",
    ),
    (
        "a decoded chunk stays when its version has changed",
        "batch/decoded_ahead.cpp",
        "    forget_chunk(place, at->second);\n    places_",
        "    places_",
    ),
    (
        "memory of a decoded chunk that is held is lent again",
        "batch/decoded_ahead.cpp",
        "  if (old.users == 0) entries_.erase(*entry);\n",
        "  entries_.erase(*entry);\n",
    ),
    (
        "a batch that took its chunks still wants them",
        "batch/worker_engine.cpp",
        "  tasks->end_decoded();\n",
        "",
    ),
    (
        "decoded chunks of files are kept for later batches",
        "batch/chunk_tasks.cpp",
        "  return array.is_remote() && ",
        "  return ",
    ),
    (
        "raw chunks are copied for later batches",
        "batch/chunk_tasks.cpp",
        "!array.metadata().codecs.is_raw() && ",
        "",
    ),
    (
        "a chunk that was decoded for another batch counts in nothing",
        "batch/worker_engine.cpp",
        "    tiers.is_for_jobs = true;\n",
        "",
    ),
    (
        "what a batch keeps decoded is read ahead",
        "batch/answers_ahead.cpp",
        "      if (decoded_ && decoded_->has(wants.chunks[chunk].id)) return true;\n",
        "",
    ),
    (
        "a request begins behind the one that was asked for later",
        "store/http/http_store.cpp",
        "      const Lock in_order(known().beginning());\n",
        "",
    ),
    (
        "another read of an answer is not counted",
        "store/http/known_objects.cpp",
        "    if (at->second) at->second->reads += count;\n",
        "",
    ),
    (
        "two threads that open one object ask both",
        "store/http/known_objects.cpp",
        "if (first == 0 || !keeps_answers || !waits || has_waited) return;",
        "return;",
    ),
    (
        "the memory of answers is counted until the batch is destroyed",
        "batch/chunk_tasks.cpp",
        "  announcement_.reset();\n",
        "",
    ),
    (
        "more is announced than the memory of answers holds",
        "batch/answers_ahead.cpp",
        "object.memory() > most_ - bytes_ ||",
        "object.memory() > most_ ||",
    ),
    (
        "the answer for two batches is no longer counted when one has ended",
        "batch/answers_ahead.cpp",
        "  if (--at->second > 0) return;\n",
        "  --at->second;\n",
    ),
    (
        "reads ahead have no bound",
        "batch/answers_ahead.cpp",
        "reads_ >= kReadsAtMost || bytes_ + bytes > most_ - most_ / 4)",
        "reads_ >= kReadsAtMost)",
    ),
    (
        "any number of reads is made ahead",
        "batch/answers_ahead.cpp",
        "reads_ >= kReadsAtMost || bytes_ + bytes",
        "bytes_ + bytes",
    ),
    (
        "chunks without a version are read ahead",
        "batch/answers_ahead.cpp",
        "!wants.chunks[chunk].is_versioned || came_with",
        "came_with",
    ),
    (
        "an old failure to open an object stays one",
        "batch/announcement.cpp",
        "  if (now - ended_at_ > AnswersAhead::kFailureIsNew) failures_.clear();\n",
        "",
    ),
    (
        "a chunk is read ahead for each batch that wants it",
        "batch/answers_ahead.cpp",
        "    if (at == chunks_.end()) return {};\n",
        "    return {};\n",
    ),
    (
        "objects of a batch that is planned already are opened ahead",
        "batch/announcement.cpp",
        "  is_opening_ = !is_planned_;\n",
        "  is_opening_ = true;\n",
    ),
    (
        "a batch is planned while its objects are opened ahead",
        "batch/announcement.cpp",
        "DAMACY_REQUIRES(mutex_) { return !is_opening_; });\n",
        "DAMACY_REQUIRES(mutex_) { return true; });\n",
    ),
    (
        "a read ahead is finished before it has landed",
        "batch/answers_ahead.cpp",
        "      if (!has_landed_) return",
        "      if (false) return",
    ),
    (
        "reads begin ahead of a batch that is planned already",
        "batch/announcement.cpp",
        "  if (is_planned_) return;\n",
        "",
    ),
    (
        "what a batch read ahead stays until the batch is settled",
        "batch/announcement.cpp",
        "  kept.swap(kept_);\n",
        "",
    ),
    (
        "a chunk whose read ahead failed is not asked for again",
        "batch/answers_ahead.cpp",
        "!read || read->has_failed() ||",
        "!read ||",
    ),
    (
        "bytes of a read ahead are held before they are there",
        "batch/answers_ahead.cpp",
        "state_ != State::finished || failure_ ||",
        "failure_ ||",
    ),
    (
        "chunks that a cache has are read ahead",
        "pipeline/pipeline_impl.cpp",
        "const bool reads_ahead = !keeps_chunks &&",
        "const bool reads_ahead =",
    ),
    (
        "two threads announce at a time",
        "batch/batch_planner.cpp",
        "  return !std::exchange(is_called_, true);\n",
        "  return true;\n",
    ),
]
PAGES_FAULTS = [
    (
        "pages far ahead of the writes become resident",
        "cache/pages_ahead.cpp",
        "return ended_ || resident_ < wanted_; };",
        "return ended_ || resident_ + 1 > 0; };",
    ),
    (
        "pages do not follow the writes",
        "cache/pages_ahead.cpp",
        "wanted_ = std::max(wanted_.load(), end + kAhead);",
        "wanted_ = std::max(wanted_.load(), std::size_t{0});",
    ),
]
# Who is served by a read, what is kept, and in which order batches are read.
READ_FAULTS = [
    (
        "a read serves those who joined another one",
        "batch/worker_engine.cpp",
        "    if (!announced_[chunk]) return {};  // they joined another read, which may have more of the chunk\n",
        "",
    ),
    (
        "raw bytes that were not read are placed",
        "fetch/host_sink.cpp",
        "    if (!read.available.empty() && !has_all(read.available, needed())) return false;\n",
        "",
    ),
    (
        "a failed read does not fail those who joined it",
        "fetch/host_sink.cpp",
        "  for (const ChunkConsumer& consumer : joined) consumer.chunks().fail_chunk(consumer.chunk(), why);\n",
        "",
    ),
    (
        "one who joined gets what the first needs",
        "fetch/host_sink.cpp",
        "    needed.insert(needed.end(), more.begin(), more.end());\n",
        "",
    ),
    (
        "a claim leaves its chunk to be joined",
        "fetch/chunk_share.h",
        "    waiting_.erase(found);\n",
        "",
    ),
    (
        "a chunk that does not decode is kept",
        "fetch/host_sink.cpp",
        "    if (!result.ok()) return false;\n",
        "",
    ),
    (
        "encoded bytes of a part are kept",
        "fetch/host_sink.cpp",
        "    if (is_done && available.empty()) static_cast<void>",
        "    if (is_done) static_cast<void>",
    ),
    (
        "a file that was just written is kept",
        "single/selection_read.cpp",
        " && (store.is_remote() || is_settled(object.stamp(), begin_ns_))",
        "",
    ),
    (
        "a chunk is found under the key of another object",
        "single/selection_read.cpp",
        "  name.add(key_of(of));\n",
        "",
    ),
    (
        "reads of a later batch come first",
        "batch/worker_engine.cpp",
        "readers_.submit(std::move(request));\n",
        "readers_.submit_urgent(std::move(request));\n",
    ),
    (
        "the reads of a batch wait for the next one",
        "batch/worker_engine.cpp",
        "  for (auto& request : requests) readers_.submit(std::move(request));\n",
        "  static thread_local std::vector<std::unique_ptr<Request>> held;\n"
        "  for (auto& request : requests) {\n"
        "    held.push_back(std::move(request));\n"
        "    if (held.size() > 1) readers_.submit(std::move(held.front())), held.erase(held.begin());\n"
        "  }\n",
    ),
    (
        "a wave is decoded before the one before it",
        "wave/wave_runner.cpp",
        "  for (; early_ != nullptr && early_->wave->number() == next_; ++next_) {\n",
        "  for (; early_ != nullptr; ++next_) {\n",
    ),
    (
        "a merged read that failed fails all of its chunks",
        "fetch/chunk_reads.cpp",
        "  const bool again = run_.chunks.size() > 1 && ",
        "  const bool again = run_.chunks.empty() && ",
    ),
    (
        "an error stands before the samples that came before it",
        "pipeline/sample_stream.cpp",
        "deferred_.push_back({accepted_, std::move(error)});",
        "deferred_.push_back({0, std::move(error)});",
    ),
]
READING = (
    "WaveTest*:*SharedDecodesOn*:WorkerEngine*:HostSink*:ChunkShare*:ReadsTest*:FindReads*:ChunkTasks*:SampleStream*:"
    "*WaveRunnerOn*:*WaveFormer*"
)
KEPT = "ChunkCache.*:SharedRegions.*:PagesAhead*:*Kept*:CachedChunks*:SameVerdicts.*large_chunk*"
# Conformance suites; rules of tasks, of slots, of readers, of transfers and of small reads.
SUITES = "*Suite/*:Task.*:BatchLayout.*:*NamedArrays*/lazy:Transfer.*:NetThreads.*:thread_engine.*:*SmallReads*"
AHEAD = (
    "BatchPlanner*:*DecodedAhead*:*OfBatches*:DocumentsAhead*:HttpStore.*:*KnownObject*:Announce*:ReadsAhead*:"
    "OpeningAhead*"
)
FINISHING = "*FinishedCopy*:FinishedElement*:Border*:PartPlacing*:*FinishedArrays*"
LATE = "*OnDevice*/lazy:*OnDevice*/random*:CuFileEngineTest*"  # suites on devices that work late


# The test programs that must detect a fault in a layer: those of the layer and of layers built on it.
PROGRAMS = {
    "core": ("core_tests",),
    "device": ("device_tests",),
    "store": ("store_tests",),
    "codec": ("codec_tests",),
    "cache": ("cache_tests",),
    "zarr": ("zarr_tests",),
    "fetch": ("fetch_tests", "batch_tests", "wave_tests", "single_tests", "pipeline_tests"),
    "single": ("single_tests",),
    "batch": ("batch_tests", "wave_tests", "pipeline_tests"),
    "wave": ("wave_tests", "pipeline_tests", "single_tests"),
    "copy": ("copy_tests", "pipeline_tests"),
    "plan": ("plan_tests", "pipeline_tests"),
    "pipeline": ("pipeline_tests",),
    "fileio": ("fileio_tests",),
}


def faults() -> Iterator[Fault]:
    for name, file, stands, planted in (
        FAULTS
        + DEVICE_READ_FAULTS
        + SHARED_DECODE_FAULTS
        + FILE_FAULTS
        + SUITE_FAULTS
        + FINISH_FAULTS
        + CACHE_FAULTS
        + VERIFY_FAULTS
        + SHARED_FAULTS
        + AHEAD_FAULTS
        + PAGES_FAULTS
        + READ_FAULTS
    ):
        yield Fault(name, f"src/damacy/{file}", stands, planted)


def main(folder: str, names: list[str]) -> int:
    def tests_pass(file: str) -> bool:
        programs = PROGRAMS[file.split("/")[2]]
        build(folder, *programs)
        return all(
            passes(
                f"{folder}/{p}",
                f"--gtest_filter={LATE}:{SUITES}:{FINISHING}:{KEPT}:{VERIFYING}:{AHEAD}:{READING}",
                "--gtest_repeat=3",
            )
            for p in programs
        )

    chosen = [fault for fault in faults() if not names or fault.name in names]
    return run(chosen, tests_pass, sound=[f"src/damacy/{layer}/" for layer in PROGRAMS])


if __name__ == "__main__":
    sys.exit(main(str(pathlib.Path(sys.argv[1]).resolve()), sys.argv[2:]))
