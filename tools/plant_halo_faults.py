#!/usr/bin/env python3
"""Plants one fault at a time into halo packing and its order of work; a test must fail.

    tools/plant_halo_faults.py BUILD [NAME …]     a configured build folder; sources are restored afterwards

halo_tests on the lazy host device must detect faults in the order of work; tests in Python, which compare with an
oracle, must detect the others. The extension is built for each of these. Prints a line for each fault, and exits 1 if
no test detected one.
"""

import pathlib
import sys

from planting import Fault, build, passes, run

ORDER, WIRE = "src/damacy/halo/work_order.cpp", "src/damacy/halo/wire.cpp"
ROTATE, SPEC = "src/damacy/halo/rotate.cpp", "src/damacy/halo/spec.cpp"
EXCHANGER, PHASES = "src/damacy/halo/exchanger.cpp", "src/damacy/halo/exchange_phases.cpp"
TRANSPORT, CACHE = "src/damacy/halo/transport.cpp", "src/damacy/halo/plan_cache.cpp"
PACKER, MPI = "src/damacy/halo/transformer.cpp", "src/damacy/halo/mpi.h"
NCCL, IN_FLIGHT = "src/damacy/halo/nccl.cpp", "src/damacy/halo/in_flight.cpp"
TAGS = "src/damacy/halo/message_tags.cpp"
PLANS, MESSAGES = "src/damacy/halo/transformer_plan.cpp", "src/damacy/halo/message_channels.cpp"
STEPS, COPIES = "src/damacy/halo/exchange_steps.cpp", "src/damacy/halo/exchange_copies.cpp"
PADDING, IDLE = "src/damacy/halo/padding.cpp", "src/damacy/halo/idle_buffers.h"
LAYOUT, LINKS = "src/damacy/halo/layout.cpp", "src/damacy/halo/link.cpp"
IN_CPP = (
    ORDER,
    SPEC,
    EXCHANGER,
    PHASES,
    TRANSPORT,
    CACHE,
    PACKER,
    MPI,
    NCCL,
    IN_FLIGHT,
    PLANS,
    MESSAGES,
    STEPS,
    COPIES,
    PADDING,
    IDLE,
    LAYOUT,
    LINKS,
    TAGS,
)  # halo_tests alone must notice
TRANSFORMER = "python/damacy/halo/data_transformer.py"
CALLS, CHANNELS = "python/bindings/halo_transformer.cpp", "python/bindings/halo_channels.cpp"
ON_LAZY_DEVICE = ("python/tests/test_halo_queue.py", "python/tests/test_halo_crossing.py")  # notice those in bindings
# name: (file, text, text that replaces it)
FAULTS = {
    "no wait for other streams": (ORDER, "for (Stream* other : others) stream.wait(other->record());", ";"),
    "no wait for streams named after": (ORDER, "for (Stream* other : after) stream.wait(other->record());", ";"),
    "no wait for the run before": (ORDER, "if (!in_order && !done_.ready()) stream.wait(done_);", ";"),
    "no wait for the buffer's last user": (ORDER, "for (const Event& event : before_) stream.wait(event);", ";"),
    "others do not wait": (ORDER, "for (Stream* other : others) other->wait(done);", ";"),
    "the last run is forgotten": (ORDER, "stream.record_again(done_);", ";"),
    "turns by +r": (WIRE, "modulo_4(-modulo_4(entry.rotation))", "modulo_4(entry.rotation)"),
    "slots exchanged": (ROTATE, "return {{true, false}, {false, true}};", "return {{false, true}, {true, false}};"),
    "a sign dropped": (WIRE, "copy.op = {block.negate, adjoint_};", "copy.op = {false, adjoint_};"),
    "Fortran order on the wire": (WIRE, "for (std::size_t i = extents.size(); i > 0; --i) {\n      strides",
                                  "for (std::size_t n = 0, i = 1; n < extents.size(); ++n, ++i) {\n      strides"),
    "a native wire by the strides at hand": (WIRE, "own.ranking.size() == extents.size() ? own.ranking : own.strides",
                                             "own.strides"),
    "an axis is not flipped": (ROTATE, "axes.j >= 0 && turns != 1", "false"),
    "the shared row of a staggered field is sent": (SPEC, "is_staggered(dim) ? 1 : 0", "0"),
    "cells outside of the allocation": (SPEC, "stop > length ? \"end\" : nullptr", "nullptr"),
    "a message is overwritten before it is on the device": (EXCHANGER, "own.round(slot, phase).uploaded.wait();", ";"),
    "a message is sent before it is packed": (EXCHANGER, "stream->record().wait();  // the transport reads", ";  //"),
    "an exchange that failed half way goes on": (IN_FLIGHT, "if (!refusal_.empty())", "if (false)"),
    "segments of a message by the receiver's side": (PHASES, "by(&Link::peer_side)", "by(&Link::side)"),
    "the shared row is sent to the wrong end": (PHASES, "(interior ? -1 : 1)", "1"),
    "corners are filled from the other side": (PHASES, "links_.fill == CornerFill::x", "links_.fill == CornerFill::y"),
    "messages in flight have one number": ("src/damacy/halo/in_flight.h", "= sent_[phase];", "= 0;"),
    "digests are not compared": (TRANSPORT, "mine.first != theirs.second || mine.second != theirs.first", "false"),
    "a message within a process overtakes the last use of its buffers": (
        TRANSPORT, "numbers_.post(slot, phase);\n    buffers_->follow(stream, slot, phase);",
        "numbers_.post(slot, phase);"),
    "a message within a process is placed while its buffer is unpacked": (
        TRANSPORT, "    buffers_->follow(stream, slot, phase);\n    for", "    for"),
    "a message within a process is placed before it is copied": (TRANSPORT, "wait(*stream, copy->sent);", ";"),
    "a message within a process is copied over one in flight": (
        TRANSPORT, "if (!capturing) stream->wait(copy->buffer.last_use);", ";"),
    "later messages are sent in any order": (STEPS, "!flights_.is_oldest(started->slot)", "false"),
    "messages have the tags of this rank": (MESSAGES, "static_cast<int>(theirs.first_tag) + phase",
                                            "*first_tag_ + phase"),
    "exchangers share their tags": (TAGS, "taken_[from] = count;\n        next_ = from + count;", ""),
    "a transport whose messages were left behind is used": (TAGS, "if (refuses_)", "if (false)"),
    "a retry takes another slot": (IN_FLIGHT, "if (posted_) return *posted_;", ";"),
    "NCCL overwrites messages of the slot's last exchange": (
        NCCL, "if (!stream.is_capturing()) stream.wait(at(slot, phase).used);\n  }\n\n  void exchange",
        "}\n\n  void exchange"),
    "NCCL's messages are unpacked before they arrive": (
        NCCL, "if (!stream.is_capturing()) stream.wait(at(slot, phase).used);\n  }\n\n  // If nothing",
        "}\n\n  // If nothing"),
    "the group of NCCL is not recorded": (NCCL, "if (!stream.is_capturing()) stream.record_again(flight.used);", ";"),
    "unpacking does not end the use of NCCL's buffers": (
        NCCL, "if (!stream.is_capturing()) stream.record_again(at(slot, phase).used);", ";"),
    "an error of a peer in NCCL is not seen": (
        NCCL, "if (result != kNcclInProgress) library_.check", "if (false) library_.check"),
    "a group of NCCL stays open after a failure": (
        NCCL, "const int ended = library_().ncclGroupEnd();", "const int ended = kNcclSuccess;"),
    "communicators of MPI are not freed": (MPI, "if (!keep && !is_finalized()) MPI_Comm_free(&handle);", ";"),
    "a communicator with a message left on it is freed": (MESSAGES, "library_->leave_messages();", ";"),
    "receives are posted twice": (MESSAGES, "if (posted_.contains({slot, phase})) return;", ";"),
    "digests are used before they arrive": (MESSAGES, "digests_->requests->wait_received();", ";"),
    "a phase is unpacked before it is received": (STEPS, "if (talks_) work.receive(slot, phase);", ";"),
    "buffers of open sends are freed": (MPI, "if (!ended(request)) unused = false, comm_->keep = true;", ";"),
    "no direction in the key of plans": (CACHE, "key.add(static_cast<std::int64_t>(direction));", ";"),
    "no ranking in the key of plans": (CACHE, "add(field.ranking);", ";"),
    "gaps of a native wire are not cleared": (PACKER, "std::memset(buffer.bytes().data(), 0, bytes);", ";"),
    "C++ unpacks into arrays that overlap": (PLANS, "copy::check_overlaps(*copies.plan->plan, copies.bases);", ";"),
    "an exchange unpacks into arrays that overlap": (
        COPIES, "if (arrays.size() > 1) copy::check_overlaps(*compiled.plan, bases);", ";"),
    "exchanges in flight have the messages of one": (COPIES, "one.slot == slot && one.arrays", "one.arrays"),
    "an array is padded at the wrong end": (PADDING, "box.start[axis] = widths[axis].start;", ";"),
    "a padded array is in C order": (PADDING, "dense_strides(padded, memory_order(shape, strides))",
                                     "c_strides(padded)"),
    "strides of dimensions of one cell matter": (LAYOUT, "if (shape[axis] > 1 && strides", "if (strides"),
    "the newest idle buffer goes first": (
        IDLE, "if (at->place == place) move_to(dropped, at);",
        "if (at->place == place) move_to(dropped, std::prev(entries_.end()));"),
    "the oldest idle buffer is lent first": (IDLE, "move_to(taken, std::prev(end)->second);",
                                             "move_to(taken, by_key_.lower_bound(key)->second);"),
    "a link that turns the other way is a counterpart": (LINKS, "modulo_4(-rotation)", "rotation"),
    "no adjoint in the key of plans": (CACHE, "key.add(adjoint);", ";"),
    "no direct copies in the key of plans": (
        CACHE,
        "for (const Direct& direct : directs) {",
        "if (false) {\n    const Direct& direct = directs[0];",
    ),
    "no axes in the key of plans": (CACHE, "    add(field.i_axis);\n    add(field.j_axis);\n", ""),
    "the receive buffer has the size of the send buffer": (
        TRANSFORMER, "self._native.buffer_elements(True)", "self._native.buffer_elements(False)"),
    "a list of arrays is not looked at again": (CALLS, "array_layout(array) != layout", "false"),
    "a message crosses before it is packed": ("python/bindings/halo_crossing.h", "own().make_wait(copies);", ";"),
    "Python's transport overwrites a message before it is on the device": (
        CHANNELS, "rounds().at(slot, phase).uploaded.wait();", ";"),
    "Python's transport sends a message before it is packed": (
        CHANNELS, "if (halo::download(own, rounds().at(slot, phase))) wait_for(own);",
        "halo::download(own, rounds().at(slot, phase));"),
    "offsets of 32 bits": ("src/damacy/copy/copy_plan.cpp", "  piece.src_slot = copy.src.slot;",
                           "  piece.src_slot = copy.src.slot;\n  const_cast<BlockCopy&>(block).src_offset = "
                           "static_cast<std::int32_t>(block.src_offset);"),
}  # fmt: skip


def tests_pass(folder: str, file: str) -> bool:
    if file in IN_CPP:
        build(folder, "halo_tests")
        return passes(f"{folder}/halo_tests")
    if "copy_plan" in file:
        build(folder, "copy_tests")
        return passes(f"{folder}/copy_tests", "--gtest_filter=CopyPlan.*")
    if file.endswith((".cpp", ".h")):
        build(folder, "_native")
    tests = ON_LAZY_DEVICE if "bindings" in file else ("python/tests/test_halo_wire.py",)
    return passes(sys.executable, "-m", "pytest", "-q", "-x", *tests)


def main(folder: str, names: list[str]) -> int:
    chosen = [Fault(name, *FAULTS[name]) for name in names or FAULTS]
    return run(chosen, lambda file: tests_pass(folder, file), sound=[ORDER, WIRE, "src/damacy/copy/copy_plan.cpp"])


if __name__ == "__main__":
    sys.exit(main(str(pathlib.Path(sys.argv[1]).resolve()), sys.argv[2:]))
