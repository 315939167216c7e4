#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""group_keys_test.py - processes ask the fabric for a group by a key: each gets the same answers in
the same order, groups and errors, whatever the others have done meanwhile.

   tests/cli/group_keys_test.py --fabemu build/fabemu [unittest options]
"""
import errno

from cli_helpers import FabemuCase, main, until

KEY = "a key"
KEPT = 64  # errors that are kept for each node (KEPT_MAX of apps/daemon/groups.c)


class GroupKeysTest(FabemuCase):
    def members(self, *nodes, options=()):
        """A fabric with one client at each node."""
        self.path = self.up("u", *options)
        return [self.attached(node) for node in nodes]

    def attached(self, node):
        """A client at @node, after a previous one has left it."""
        client = self.client(self.path)
        self.assertTrue(until(lambda: client.attach(want=node)["ok"]))
        return client

    def left(self, node):
        """Wait until no process is attached to @node."""
        self.assertTrue(until(lambda: node not in [
            one["node"] for one in self.status("u")["attached"]]))

    def reply(self, client, cmd, **fields):
        """The reply to a request; skips events."""
        client.send({"cmd": cmd, **fields})
        while "event" in (message := client.next()):
            pass
        return message

    def ask(self, client, nodes=(0, 1), key=KEY, **fields):
        """The group's number, or the name of the error."""
        message = self.reply(client, "group_create", nodes=list(nodes), key=key, **fields)
        self.refusal = message.get("error")
        return message["group"] if message["ok"] else errno.errorcode[message["errno"]]

    def join(self, client, group):
        return self.reply(client, "group_join", group=group)["ok"]

    def leave(self, client, group):
        self.assertTrue(self.reply(client, "group_leave", group=group)["ok"])

    def groups(self, client, nodes):
        """Create groups without a key until the fabric refuses; returns them, all joined."""
        made = []
        while (reply := self.reply(client, "group_create", nodes=nodes))["ok"]:
            made.append(reply["group"])
            self.assertTrue(self.join(client, made[-1]))
        self.assertEqual(reply["errno"], errno.ENOSPC)
        return made

    # --- the same group -----------------------------------------------------------------------

    def test_key__gives_each_member_the_same_group(self):
        clients = self.members(0, 1, 2)
        group = self.ask(clients[0], range(3))
        for client in clients * 2:  # asking again without joining changes nothing
            self.assertEqual(self.ask(client, range(3)), group)
        for client in clients:
            self.assertTrue(self.join(client, group))

    def test_key__of_other_nodes_or_another_window_is_another_group(self):
        clients = self.members(0, 1, 2)
        asks = ({"nodes": (0, 1, 2)}, {"nodes": (0, 2, 1)}, {"nodes": (0, 1)},
                {"nodes": (0, 1, 2), "wide": True}, {"nodes": (0, 1, 2), "key": "another"})
        first = [self.ask(clients[0], **fields) for fields in asks]
        self.assertEqual(len(set(first)), len(asks))
        self.assertEqual([self.ask(clients[1], **fields) for fields in asks], first)
        self.assertEqual(self.ask(clients[2], nodes=(0, 1, 2), wide=False), first[0])
        unnamed = [self.reply(clients[1], "group_create", nodes=[0, 1])["group"]
                   for _ in range(2)]
        self.assertEqual(len({*unnamed, *first}), len(asks) + 2)

    def test_key__makes_a_new_group_after_all_have_left(self):
        first, second = self.members(0, 1)
        old = None
        for _ in range(3):
            group = self.ask(second)
            self.assertNotEqual(group, old)
            self.assertEqual(self.ask(first), group)
            for client in (first, second):
                self.assertTrue(self.join(client, group))
            for client in (first, second):
                self.leave(client, group)
            first, second, old = second, first, group

    def test_slow_member__gets_the_old_group_and_then_the_new_one(self):
        fast, slow = self.members(0, 1)
        groups = []
        for _ in range(3):
            groups.append(self.ask(fast))
            self.assertTrue(self.join(fast, groups[-1]))
            self.leave(fast, groups[-1])
        self.assertEqual(len(set(groups)), 3)
        for group in groups:
            self.assertEqual(self.ask(slow), group)
            self.assertTrue(self.join(slow, group))
        self.assertEqual(self.ask(slow), self.ask(fast))

    # --- refused groups -----------------------------------------------------------------------

    def test_refusal__is_given_once_to_each_member(self):
        """Also to the process for whose lack the group was refused."""
        first, second = self.members(0, 1)
        self.assertEqual(self.ask(first, range(3)), "EHOSTUNREACH")
        refusal = self.refusal
        third = self.attached(2)
        for client in (third, second):
            self.assertEqual(self.ask(client, range(3)), "EHOSTUNREACH")
            self.assertEqual(self.refusal, refusal)
        group = self.ask(second, range(3))
        for client in (first, third):
            self.assertEqual(self.ask(client, range(3)), group)

    def test_refusal__because_all_groups_are_used(self):
        first, second = self.members(0, 1, options=("--set", "combine_states=4096"))
        used = self.groups(first, [0, 1])
        self.assertEqual(self.ask(second), "ENOSPC")
        refusal = self.refusal
        for group in used:
            for client in (first, second):
                self.reply(client, "group_leave", group=group)
        self.assertEqual(self.ask(first), "ENOSPC")
        self.assertEqual(self.refusal, refusal)
        self.assertEqual(self.ask(first), self.ask(second))

    def test_refusals_and_groups__keep_their_order(self):
        """A member that asks again at once gets a group. The other gets the refusal first."""
        (first,) = self.members(0)
        asked = [self.ask(first)]
        second = self.attached(1)
        asked.append(self.ask(first))
        self.assertTrue(self.join(first, asked[-1]))
        second.close()
        self.left(1)
        asked.append(self.ask(first))
        self.assertEqual([asked[0], asked[2]], ["EHOSTUNREACH"] * 2)
        second = self.attached(1)
        self.assertEqual(self.ask(second), "EHOSTUNREACH")  # the last one; the rest was not for it
        self.assertEqual(self.ask(second), self.ask(first))

    def test_refusal__comes_before_a_later_group(self):
        first, second = self.members(0, 1)
        self.assertEqual(self.ask(first, range(3)), "EHOSTUNREACH")
        third = self.attached(2)
        group = self.ask(first, range(3))
        for client in (second, third):
            self.assertEqual(self.ask(client, range(3)), "EHOSTUNREACH")
            self.assertEqual(self.ask(client, range(3)), group)

    def test_refusals__are_forgotten_but_make_no_group(self):
        """A member of a forgotten group must not wait for members that have got the error."""
        first, second = self.members(0, 1)
        self.assertEqual(self.ask(second, range(3), "of another node"), "EHOSTUNREACH")
        for i in range(KEPT + 1):
            self.assertEqual(self.ask(first, range(3), str(i)), "EHOSTUNREACH")
        third = self.attached(2)
        self.assertEqual(self.ask(third, range(3), "0"), "ENOSPC")  # the oldest is forgotten
        self.assertIn("more than 64 groups of node 0 were refused or broke", self.refusal)
        self.assertEqual(self.ask(second, range(3), "0"), "ENOSPC")
        for i in range(1, KEPT + 1):
            for client in (second, third):
                self.assertEqual(self.ask(client, range(3), str(i)), "EHOSTUNREACH")
        self.assertEqual(self.ask(first, range(3), "of another node"), "EHOSTUNREACH")
        self.assertEqual(self.ask(third, range(3), "new"), "ENOSPC")  # and so to the others
        self.assertEqual([self.ask(one, range(3), "new") for one in (first, second)],
                         ["ENOSPC"] * 2)
        group = self.ask(third, (1, 2), "without the first")  # only groups of the first are refused
        self.assertIsInstance(group, int)
        self.assertEqual(self.ask(second, (1, 2), "without the first"), group)
        group = self.ask(first, range(3), "by another")
        self.assertEqual([self.ask(one, range(3), "by another") for one in (second, third)],
                         [group] * 2)
        third.close()
        self.left(2)
        third = self.attached(2)  # its successor is owed nothing
        self.assertIsInstance(self.ask(third, range(3), "of a successor"), int)

    def test_refusals__do_not_pile_up(self):
        """A program asks again and again until all members are attached."""
        (first,) = self.members(0)
        for _ in range(10 * KEPT):
            self.assertEqual(self.ask(first), "EHOSTUNREACH")
        second = self.attached(1)
        group = self.ask(first)
        answers = [self.ask(second) for _ in range(KEPT + 1)]
        self.assertEqual(answers, ["EHOSTUNREACH"] * KEPT + [group])

    # --- broken groups ------------------------------------------------------------------------

    def test_broken_group__is_an_error_once_for_a_member_that_had_not_joined(self):
        for how in ("group_break", "group_leave", "close"):
            with self.subTest(how=how):
                clients = self.members(0, 1, 2)
                group = self.ask(clients[0], range(3))
                self.assertTrue(self.join(clients[0], group))
                if how == "group_leave":  # declines
                    self.assertTrue(self.reply(clients[1], how, group=group)["ok"])
                elif how == "group_break":
                    self.assertTrue(self.reply(clients[0], how, group=group)["ok"])
                    self.assertEqual(self.ask(clients[1], range(3)), "EPIPE")
                else:
                    clients[1].close()
                    self.left(1)
                    clients[1] = self.attached(1)  # its successor is not a member of the old group
                self.leave(clients[0], group)  # now the group has no member
                self.assertEqual(self.ask(clients[2], range(3)), "EPIPE")
                self.assertIn("broke before this process joined it", self.refusal)
                new = self.ask(clients[2], range(3))
                self.assertEqual([self.ask(client, range(3)) for client in clients], [new] * 3)
                self.fabemu("down", "u")

    def test_broken_group__is_an_error_once_for_a_member_that_joins(self):
        """The group breaks after the member has asked for it."""
        clients = self.members(0, 1, 2)
        group = self.ask(clients[0], range(3))
        self.assertEqual(self.ask(clients[1], range(3)), group)
        self.assertTrue(self.join(clients[0], group))
        self.assertTrue(self.reply(clients[0], "group_break", group=group)["ok"])
        self.assertFalse(self.join(clients[1], group))
        self.assertIsInstance(self.ask(clients[1], range(3)), int)

    def test_broken_groups__are_forgotten_but_make_no_group(self):
        first, second = self.members(0, 1)
        for i in range(KEPT + 1):
            group = self.ask(first, key=str(i))
            self.assertTrue(self.join(first, group))
            self.assertTrue(self.reply(first, "group_break", group=group)["ok"])
            self.leave(first, group)
        self.assertEqual(self.ask(second, key="0"), "ENOSPC")
        for i in range(1, KEPT + 1):
            self.assertEqual(self.ask(second, key=str(i)), "EPIPE")

    # --- successors ---------------------------------------------------------------------------

    def test_successor__gets_no_answer_for_its_predecessor(self):
        for how in ("close", "detach"):
            with self.subTest(how=how):
                first, second = self.members(0, 1)
                old = self.ask(first)  # the second is invited
                self.assertEqual(self.ask(first, (0, 1, 2), "refused"), "EHOSTUNREACH")
                if how == "detach":
                    second.ask("detach")
                second.close()
                self.left(1)
                second, third = self.attached(1), self.attached(2)
                self.assertFalse(self.join(second, old))
                new = self.ask(second)
                self.assertNotIn(new, ("EPIPE", old))
                self.assertIsInstance(self.ask(second, (0, 1, 2), "refused"), int)
                self.assertEqual(self.ask(third, (0, 1, 2), "refused"), "EHOSTUNREACH")
                self.assertEqual(self.ask(first), "EPIPE")  # it was not told by a join
                self.assertEqual(self.ask(first), new)
                self.fabemu("down", "u")

    # --- wrong requests -----------------------------------------------------------------------

    def test_wrong_key__is_refused(self):
        first, second = self.members(0, 1)
        for key in ("", "x" * 96, "\N{GREEK SMALL LETTER ALPHA}" * 48, 5, None, ["a"], {}, True,
                    "a\nb", "\0", "a\0b", "\x7f", "\t"):
            with self.subTest(key=key):
                self.assertEqual(self.ask(first, key=key), "EINVAL")
                self.assertIn('"key"', self.refusal)
        for key in ("x" * 95, "\N{GREEK SMALL LETTER ALPHA}" * 47, " ", '"\\'):
            self.assertEqual(self.ask(first, key=key), self.ask(second, key=key))

    def test_wrong_nodes__are_no_refusal_for_others(self):
        first, second = self.members(0, 1)
        for nodes in ([0, 0], [0], [0, 99], "all"):
            self.assertEqual(self.ask(first, nodes), "EINVAL")
        self.assertEqual(self.ask(first), self.ask(second))

    def test_stranger__gets_no_group_and_changes_nothing(self):
        first, second, stranger = self.members(0, 1, 2)
        self.assertEqual(self.ask(stranger), "EPERM")
        self.assertEqual(self.ask(stranger, (0, 1, 3)), "EPERM")  # a node without a process
        fourth = self.attached(3)
        group = self.ask(first, (0, 1, 3))
        self.assertEqual(self.ask(stranger, (0, 1, 3)), "EPERM")
        self.assertEqual([self.ask(client, (0, 1, 3)) for client in (second, fourth)], [group] * 2)
        self.assertFalse(self.join(stranger, group))
        unattached = self.client(self.path)
        self.assertEqual(self.ask(unattached), "ENOTCONN")
        self.assertEqual(self.ask(first), self.ask(second))


if __name__ == "__main__":
    main()
