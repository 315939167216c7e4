/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * commands.h - the commands of `fabemu`. Each function gets the command's name, such as "run", in
 * argv[0], and returns the exit status.
 */
#ifndef APPS_CMD_COMMANDS_H
#define APPS_CMD_COMMANDS_H

int run_main(int argc, char **argv);
int up_main(int argc, char **argv);
int down_main(int argc, char **argv);
int status_main(int argc, char **argv);
int top_main(int argc, char **argv);
int web_main(int argc, char **argv);
int check_main(int argc, char **argv);
int env_main(int argc, char **argv);
int topo_main(int argc, char **argv);
int fault_main(int argc, char **argv);
int capture_main(int argc, char **argv);
int cluster_main(int argc, char **argv);
int traffic_main(int argc, char **argv);
int figures_main(int argc, char **argv);
int bench_main(int argc, char **argv);
int compare_main(int argc, char **argv);
int join_main(int argc, char **argv);

#endif
