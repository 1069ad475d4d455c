// Halo exchange: the parts of a decomposed grid send border cells to each other.
//
// Exchanger of damacy/halo/exchanger.h does all of it over a Transport: damacy/halo/transport.h has the interface, a
// transport within a process, and that of NCCL; damacy/halo/mpi.h (not included here, because it needs <mpi.h>) that of
// MPI.
// HaloDataTransformer of damacy/halo/transformer.h packs and unpacks messages of callers who communicate themselves.
// damacy/halo/spec.h describes fields and their memory, and topology.h the ranks.
#pragma once

#include "damacy/halo/exchanger.h"
#include "damacy/halo/spec.h"
#include "damacy/halo/topology.h"
#include "damacy/halo/transformer.h"
#include "damacy/halo/transport.h"
