"""The CMake project, the pkg-config file and the notes of a package of portable C."""

from __future__ import annotations

VERSION = "1.0.0"
"""Version of the interface of packages: functions, their arguments and the names of files."""


def cmake_files(name: str, title: str) -> dict[str, str]:
    """Return the text of each file for builds, by its name.

    Args:
        name: Name of the package, an identifier of C.
        title: Robot and function, for comments.
    """
    return {
        "CMakeLists.txt": _CMAKE.replace("@@NAME@@", name).replace("@@VERSION@@", VERSION).replace("@@TITLE@@", title),
        f"{name}.pc.in": _PKG_CONFIG.replace("@@NAME@@", name)
        .replace("@@VERSION@@", VERSION)
        .replace("@@TITLE@@", title),
    }


_CMAKE = """\
# @@TITLE@@. To build, test and install:
#   cmake -S . -B build && cmake --build build && ctest --test-dir build
#   cmake --install build --prefix PREFIX
# Then, in another project: find_package(@@NAME@@) and
#   target_link_libraries(program PRIVATE dynagate::@@NAME@@)
cmake_minimum_required(VERSION 3.15)
project(@@NAME@@ VERSION @@VERSION@@ LANGUAGES C)
include(CheckLanguage)
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

if(CMAKE_SOURCE_DIR STREQUAL PROJECT_SOURCE_DIR)
  set(is_top ON)
  if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE Release)
  endif()
else()
  set(is_top OFF)
endif()
option(@@NAME@@_TEST "Build the test of @@NAME@@" ${is_top})
option(@@NAME@@_EXAMPLE "Build the example of @@NAME@@" ${is_top})

add_library(@@NAME@@ @@NAME@@_f32.c @@NAME@@_f64.c)
add_library(dynagate::@@NAME@@ ALIAS @@NAME@@)
set_target_properties(@@NAME@@ PROPERTIES
  C_STANDARD 11 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF
  POSITION_INDEPENDENT_CODE ON UNITY_BUILD OFF WINDOWS_EXPORT_ALL_SYMBOLS ON)
target_include_directories(@@NAME@@ PUBLIC
  "$<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}>" "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
target_compile_options(@@NAME@@ PRIVATE
  "$<$<C_COMPILER_ID:GNU,Clang,AppleClang>:-ffp-contract=fast;-fno-math-errno;-fno-trapping-math>")
if(UNIX)
  target_link_libraries(@@NAME@@ PUBLIC m)
endif()

if(@@NAME@@_TEST)
  enable_testing()
  add_executable(@@NAME@@_test @@NAME@@_test.c)
  set_target_properties(@@NAME@@_test PROPERTIES C_STANDARD 11)
  target_link_libraries(@@NAME@@_test PRIVATE @@NAME@@)
  add_test(NAME @@NAME@@_test COMMAND @@NAME@@_test)
endif()
if(@@NAME@@_EXAMPLE)
  check_language(CXX)
  if(CMAKE_CXX_COMPILER)
    enable_language(CXX)
    add_executable(@@NAME@@_example @@NAME@@_example.cpp)
    target_compile_features(@@NAME@@_example PRIVATE cxx_std_17)
    target_link_libraries(@@NAME@@_example PRIVATE @@NAME@@)
  endif()
endif()

set(package_folder "${CMAKE_INSTALL_LIBDIR}/cmake/@@NAME@@")
write_basic_package_version_file(@@NAME@@ConfigVersion.cmake COMPATIBILITY SameMajorVersion)
file(RELATIVE_PATH to_prefix "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
configure_file(@@NAME@@.pc.in @@NAME@@.pc @ONLY)
install(TARGETS @@NAME@@ EXPORT @@NAME@@Config
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
install(FILES @@NAME@@.h @@NAME@@.hpp DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(EXPORT @@NAME@@Config NAMESPACE dynagate:: DESTINATION "${package_folder}")
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/@@NAME@@ConfigVersion.cmake" DESTINATION "${package_folder}")
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/@@NAME@@.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
"""

_PKG_CONFIG = """\
prefix=${pcfiledir}/@to_prefix@
libdir=${prefix}@CMAKE_INSTALL_LIBDIR@
includedir=${prefix}@CMAKE_INSTALL_INCLUDEDIR@

Name: @@NAME@@
Description: @@TITLE@@
Version: @@VERSION@@
Cflags: -I${includedir}
Libs: -L${libdir} -l@@NAME@@ -lm
"""
