/// Every tool of the multi-call program, by its name.
#pragma once

namespace holdfast::tools {

int fast_lock(int argc, char** argv);
int check_lock(int argc, char** argv);
int grace_lock(int argc, char** argv);
int hostpid_lock(int argc, char** argv);
int fair_lock(int argc, char** argv);
int fair_semaphore(int argc, char** argv);
int multi_lock(int argc, char** argv);
int rw_lock(int argc, char** argv);
int local_id(int argc, char** argv);
int lock_local(int argc, char** argv);
int lock_ssh(int argc, char** argv);
int semaphore(int argc, char** argv);
int semaphore_ssh(int argc, char** argv);
int ssh_id(int argc, char** argv);

}  // namespace holdfast::tools
