#!/bin/sh
# Starts ranks of MPI for tests, on this machine alone: more of them than cores, bound to none, by shared memory and the
# loopback interface. TMPDIR is a folder of this run; its name is short, because names of sockets are.
#   TMPDIR=... mpirun.sh MPIEXEC RANKS PROGRAM [ARGUMENT...]
set -eu
mpiexec=$1
ranks=$2
shift 2

# Open MPI. The first two are for containers; ranks that wait give their core to others.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe PRTE_MCA_hwloc_default_binding_policy=none
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none  # the same for Open MPI 4
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_pml=ob1 OMPI_MCA_btl=^tcp,openib PMIX_MCA_ptl_tcp_if_include=lo
# MPICH, which binds to none by itself.
export HYDRA_IFACE=lo FI_PROVIDER=tcp FI_TCP_IFACE=lo UCX_TLS=self,sm,tcp UCX_NET_DEVICES=lo

exec "$mpiexec" -n "$ranks" "$@"
