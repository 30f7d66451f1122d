# Third-party libraries, each wrapped in one interface target `ext_NAME`.
# A module names the ones it needs in EXTERNAL; nothing is found behind its back.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)

function(tandem_pkg name)
  pkg_check_modules(${name} REQUIRED IMPORTED_TARGET ${ARGN})
  add_library(ext_${name} INTERFACE)
  target_link_libraries(ext_${name} INTERFACE PkgConfig::${name})
endfunction()

tandem_pkg(yaml_cpp yaml-cpp)
tandem_pkg(zmq libzmq)
tandem_pkg(protobuf protobuf-lite)
tandem_pkg(spdlog spdlog)
tandem_pkg(pcre2 libpcre2-8)
tandem_pkg(xxhash libxxhash)

find_package(prometheus-cpp CONFIG REQUIRED COMPONENTS core)
add_library(ext_prometheus INTERFACE)
target_link_libraries(ext_prometheus INTERFACE prometheus-cpp::core)

find_package(nlohmann_json REQUIRED)
add_library(ext_json INTERFACE)
target_link_libraries(ext_json INTERFACE nlohmann_json::nlohmann_json)

find_package(Boost 1.81 REQUIRED)
add_library(ext_boost INTERFACE)
target_link_libraries(ext_boost INTERFACE Boost::headers)

find_package(CLI11 REQUIRED)
add_library(ext_cli11 INTERFACE)
target_link_libraries(ext_cli11 INTERFACE CLI11::CLI11)

find_package(MPI REQUIRED COMPONENTS C)
add_library(ext_mpi INTERFACE)
target_link_libraries(ext_mpi INTERFACE MPI::MPI_C)
# mpi.h would pull in the C++ bindings, which need another library.
target_compile_definitions(ext_mpi INTERFACE OMPI_SKIP_MPICXX=1 MPICH_SKIP_MPICXX=1)

find_package(OpenSSL REQUIRED)
add_library(ext_crypto INTERFACE)
target_link_libraries(ext_crypto INTERFACE OpenSSL::Crypto)

find_package(GTest REQUIRED)
find_package(benchmark QUIET)
find_program(TANDEM_PROTOC protoc REQUIRED)
