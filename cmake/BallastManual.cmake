# Man pages and shell completion: the program prints them, so that they agree with --help.
include(GNUInstallDirs)
set(manual "${PROJECT_BINARY_DIR}/manual")
add_custom_command(OUTPUT "${manual}/written"
                   COMMAND "${CMAKE_COMMAND}" "-DPROGRAM=${CMAKE_CROSSCOMPILING_EMULATOR};$<TARGET_FILE:ballast_program>"
                           "-DOUT=${manual}" -P "${PROJECT_SOURCE_DIR}/cmake/write_manual.cmake"
                   DEPENDS ballast_program "${PROJECT_SOURCE_DIR}/cmake/write_manual.cmake"
                   VERBATIM)
add_custom_target(ballast_manual ALL DEPENDS "${manual}/written")

install(DIRECTORY "${manual}/man1" DESTINATION "${CMAKE_INSTALL_MANDIR}" COMPONENT program)
install(FILES "${manual}/bash" RENAME ballast COMPONENT program
        DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions")
install(FILES "${manual}/zsh" RENAME _ballast COMPONENT program
        DESTINATION "${CMAKE_INSTALL_DATADIR}/zsh/site-functions")
install(FILES "${manual}/fish" RENAME ballast.fish COMPONENT program
        DESTINATION "${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d")
