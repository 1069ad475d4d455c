// Reads and writes of files, from and to host memory and device memory.
//
//   CuFile           an open file: read, write, many ranges, in the order of streams   fileio/cu_file.h
//   IOFuture         a request under way: get, wait, cancel, counts                    fileio/operation.h
//   FileMemory       host_memory(), device_memory() and parts of them                  fileio/file_requests.h
//   GDSStore         the objects of a folder, by keys                                  fileio/gds_store.h
//   io_settings      threads, task size, engine; of the process                        fileio/io_settings.h
//   FileError        what failed, with the file and errno                              fileio/file.h
//   make_primary_current   a CUDA context for a program that has made none             device/cuda_device.h
//
// CuFile is made of these, which take requests in parts:
//
//   File             an open file, as requests share it                                fileio/file.h
//   begin_request    reads or writes it; gives an Operation                            fileio/file_requests.h
//   Operation        a request under way, run by its caller or by workers              fileio/operation.h
#pragma once

#include "damacy/core/error.h"
#include "damacy/device/cuda_device.h"
#include "damacy/device/device.h"
#include "damacy/fileio/cu_file.h"
#include "damacy/fileio/file.h"
#include "damacy/fileio/file_requests.h"
#include "damacy/fileio/gds_store.h"
#include "damacy/fileio/io_settings.h"
#include "damacy/fileio/operation.h"
