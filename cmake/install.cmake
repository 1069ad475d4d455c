# Headers and libraries for find_package(damacy).
