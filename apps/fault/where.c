/* SPDX-License-Identifier: BSD-3-Clause */
/* where.c - read and write the key that names a fault's targets, such as link=3:5 or top=2. */
#include <ctype.h>
#include <string.h>

#include "apps/fault/internal.h"

static const struct fault_key_row count_row = {.type = FAULT_TYPE_NUMBER,
                                               .least = 1,
                                               .most = EMU_FAULT_ANY - 1};
static const struct fault_key_row share_row = {.type = FAULT_TYPE_SHARE,
                                               .least = 1,
                                               .most = EMU_FAULT_ONE};

/* Read the direction after a cable's name: ">", "<" or nothing. False: it is something else. */
static bool read_direction(const char *at, enum fault_direction *ret)
{
    *ret = *at == '>' ? FAULT_OUT : *at == '<' ? FAULT_IN : FAULT_BOTH;
    return !at[*ret != FAULT_BOTH];
}

static bool read_number(const char **at, uint32_t most, uint32_t *ret)
{
    uint64_t number;

    if (!quantity_digits(at, most, &number))
        return false;
    *ret = (uint32_t)number;
    return true;
}

/*
 * Read a link by name, as in "leaf1:5>", "node01" or "node01:1". A name may contain colons, so only
 * a number after the last colon is a port. Whether the network has the name is checked later.
 */
static bool read_named_link(struct fault_where *where, const char *value)
{
    struct fault_named_link named = {.port = EMU_FAULT_ANY};
    size_t length = strcspn(value, "<>");
    const char *colon = memrchr(value, ':', length), *port = colon ? colon + 1 : NULL;

    if (!isalpha((unsigned char)*value) || !read_direction(value + length, &named.direction))
        return false;
    if (port && read_number(&port, UINT8_MAX, &named.port) && port == value + length)
        length = (size_t)(colon - value);
    else
        named.port = EMU_FAULT_ANY;
    if (length > TOPO_NAME_MAX)
        return false;
    memcpy(named.name, value, length);
    where->place = FAULT_AT_NAMED_LINK;
    where->named = named;
    return true;
}

static bool read_link(struct fault_where *where, const char *value)
{
    struct fault_port port;
    struct fault_node_link link = {.link = EMU_FAULT_ANY};

    if (strcmp(value, "any") == 0) {
        where->place = FAULT_AT_ALL;
        return true;
    }
    if (isalpha((unsigned char)*value) &&
        (*value != 'n' || strspn(value + 1, "0123456789") != strcspn(value + 1, ":<>")))
        return read_named_link(where, value);
    if (*value == 'n') {
        value++;
        if (!read_number(&value, TOPO_NODES_MAX - 1, &link.node))
            return false;
        if (*value == ':' && (value++, !read_number(&value, UINT8_MAX, &link.link)))
            return false;
        if (!read_direction(value, &link.direction))
            return false;
        where->place = FAULT_AT_NODE_LINK;
        where->link = link;
        return true;
    }
    if (!read_number(&value, EMU_FAULT_ANY - 1, &port.sw) || *value++ != ':' ||
        !read_number(&value, UINT8_MAX, &port.port) || !read_direction(value, &port.direction))
        return false;
    where->place = FAULT_AT_LINK;
    where->port = port;
    return true;
}

static bool read_name(struct fault_where *where, const char *value)
{
    size_t length = strlen(value);

    if (!isalpha((unsigned char)*value) || length > TOPO_NAME_MAX)
        return false;
    memcpy(where->name, value, length + 1);
    where->place = FAULT_AT_NAMED_SWITCH;
    return true;
}

bool fault_node_read(struct fault_names *names, const char *value, uint32_t *ret)
{
    bool is_number = *value && !value[strspn(value, "0123456789")];

    if (!names->graph)
        return is_number && read_number(&value, TOPO_NODES_MAX - 1, ret);
    if (topo_parse_node(ret, names->graph, value, names->why, sizeof names->why) == 0)
        return true;
    /* this is a wrong range or list: clear the reason, so that the error lists the valid values */
    if (!is_number && !value[strspn(value, "0123456789-,")])
        *names->why = '\0';
    return false;
}

void fault_put_node(struct fault_writer *writer, uint32_t node)
{
    const struct topo_graph *graph = writer->graph;
    const char *name = graph && node < graph->nodes ? topo_node_name(graph, node) : NULL;
    char error[TOPO_NODE_ERROR_BYTES];
    uint32_t back = TOPO_NONE;

    if (name && !strpbrk(name, " ,#") && strcmp(name, "any") != 0)
        topo_parse_node(&back, graph, name, error, sizeof error);
    if (back == node)
        fault_put(writer, "%s", name);
    else
        fault_put(writer, "%u", node);
}

static bool read_id(struct fault_where *where, const char *value, bool any, enum fault_place place,
                    uint32_t *into)
{
    uint32_t id;

    if (any && strcmp(value, "any") == 0) {
        where->place = FAULT_AT_ALL;
        return true;
    }
    if (!read_number(&value, EMU_FAULT_ANY - 1, &id) || *value)
        return false;
    where->place = place;
    *into = id;
    return true;
}

/* Add a range, and merge it with ranges that it overlaps or touches. False: there are too many. */
static bool nodes_add(struct fault_nodes *nodes, uint32_t first, uint32_t last)
{
    uint32_t from = 0, to;

    while (from < nodes->ranges && nodes->range[from].last + 1 < first)
        from++;
    for (to = from; to < nodes->ranges && nodes->range[to].first <= last + 1; to++) {
        if (nodes->range[to].first < first)
            first = nodes->range[to].first;
        if (nodes->range[to].last > last)
            last = nodes->range[to].last;
    }
    if (to == from && nodes->ranges == FAULT_RANGES_MAX)
        return false;
    memmove(&nodes->range[from + 1], &nodes->range[to],
            (nodes->ranges - to) * sizeof nodes->range[0]);
    nodes->ranges -= to - from - 1;
    nodes->range[from] = (struct fault_range){first, last};
    memset(&nodes->range[nodes->ranges], 0,
           (FAULT_RANGES_MAX - nodes->ranges) * sizeof nodes->range[0]);
    return true;
}

/* Read a range of numbers, such as "0-3". A name may have the same form: "10-1". */
static bool read_range(const char *value, struct fault_range *ret)
{
    return read_number(&value, TOPO_NODES_MAX - 1, &ret->first) && *value++ == '-' &&
           read_number(&value, TOPO_NODES_MAX - 1, &ret->last) && !*value &&
           ret->first <= ret->last;
}

/* Read one element of a list: a range of numbers, or the number or the name of a node. */
static bool read_list_element(struct fault_names *names, const char *value, struct fault_range *ret)
{
    if (read_range(value, ret))
        return true;
    if (!fault_node_read(names, value, &ret->first))
        return false;
    ret->last = ret->first;
    return true;
}

/* Read a list of nodes. A name with a comma cannot be one of several elements. */
static bool read_nodes(struct fault_where *where, const char *value, struct fault_names *names)
{
    bool is_name = names->graph && topo_find_node(names->graph, value, strlen(value)) != TOPO_NONE;
    struct fault_nodes nodes = {0};

    for (;; value++) {
        char one[TOPO_NAME_MAX + 1];
        size_t length = is_name ? strlen(value) : strcspn(value, ",");
        struct fault_range range;

        if (!length || length > TOPO_NAME_MAX)
            return false;
        memcpy(one, value, length);
        one[length] = '\0';
        if (!read_list_element(names, one, &range) || !nodes_add(&nodes, range.first, range.last))
            return false;
        value += length;
        if (!*value)
            break;
    }
    where->place = FAULT_AT_NODES;
    where->nodes = nodes;
    return true;
}

static bool read_switch(struct fault_where *where, const char *value, bool any)
{
    return read_id(where, value, any, FAULT_AT_SWITCH, &where->sw) ||
           (strcmp(value, "any") != 0 && read_name(where, value));
}

static bool read_node(struct fault_where *where, const char *value, struct fault_names *names)
{
    uint32_t node;

    if (strcmp(value, "any") == 0) {
        where->place = FAULT_AT_ALL;
        return true;
    }
    if (!fault_node_read(names, value, &node))
        return false;
    where->place = FAULT_AT_NODES;
    where->nodes = (struct fault_nodes){.ranges = 1, .range = {{node, node}}};
    return true;
}

static bool read_random(struct fault_where *where, const char *value, enum fault_place place)
{
    bool share = value && strchr(value, '%');
    uint64_t number = 1;

    if (value && fault_scan(share ? &share_row : &count_row, value, &number))
        return false;
    where->place = place;
    where->random =
        (struct fault_random){share ? 0 : (uint32_t)number, share ? (uint32_t)number : 0};
    return true;
}

bool fault_where_read(struct fault *fault, enum fault_key key, const char *value,
                      struct fault_names *names, const char **valid)
{
    static const char amount[] = "a number from 1, or a share such as 25%; without a value: 1";
    struct fault_where *where = &fault->where;
    bool links = fault_domain(fault->kind) == FAULT_OF_LINKS;

    switch (key) {
    case FAULT_KEY_LINK:
        *valid = "S:P (port P of switch S, both directions; S:P> only out, S:P< only in), "
                 "nN or nN:L (links of node N), NAME:P (port P of a switch or a node, named as in "
                 "the network's file), NAME (links of a node), or any";
        return value && read_link(where, value);
    case FAULT_KEY_LEVEL:
        *valid = "a number; the switches next to the nodes have level 0";
        return value && read_id(where, value, false, FAULT_AT_LEVEL, &where->level);
    case FAULT_KEY_SWITCH:
        *valid = links ? "the number or the name of a switch, for all its cables; for all "
                         "cables of the network: link=any"
                       : "the number of a switch, its name, or any";
        return value && read_switch(where, value, !links);
    case FAULT_KEY_NODE:
        *valid = "the number of a node up to 1048575, its name, or any";
        return value && read_node(where, value, names);
    case FAULT_KEY_NODES:
        *valid = "numbers of nodes up to 1048575, names, and at most 32 ranges of numbers: 0-3,8";
        return value && read_nodes(where, value, names);
    case FAULT_KEY_TOP:
        *valid = amount;
        return read_random(where, value, FAULT_AT_TOP);
    default:
        *valid = amount;
        return read_random(where, value, FAULT_AT_RANDOM);
    }
}

static const char *direction_text(enum fault_direction direction)
{
    return direction == FAULT_OUT ? ">" : direction == FAULT_IN ? "<" : "";
}

static void print_nodes(struct fault_writer *writer, const struct fault_nodes *nodes)
{
    const struct fault_range *range = nodes->range;

    if (nodes->ranges == 1 && range->first == range->last) {
        fault_put(writer, "node=");
        fault_put_node(writer, range->first);
        return;
    }
    fault_put(writer, "nodes=");
    for (uint32_t i = 0; i < nodes->ranges; i++) {
        fault_put(writer, "%s%u", i ? "," : "", range[i].first);
        if (range[i].last > range[i].first)
            fault_put(writer, "-%u", range[i].last);
    }
}

static void print_random(struct fault_writer *writer, const char *name,
                         const struct fault_random *some)
{
    uint32_t part = some->share % 10000000, places = 7;

    fault_put(writer, "%s", name);
    if (some->count) {
        if (some->count > 1)
            fault_put(writer, "=%u", some->count);
        return;
    }
    fault_put(writer, "=%u", some->share / 10000000);
    for (; part && part % 10 == 0; places--)
        part /= 10;
    if (part)
        fault_put(writer, ".%0*u", (int)places, part);
    fault_put(writer, "%%");
}

void fault_where_print(struct fault_writer *writer, const struct fault *fault)
{
    static const char *const all[] = {[FAULT_OF_LINKS] = "link=any",
                                      [FAULT_OF_SWITCHES] = "switch=any",
                                      [FAULT_OF_NODES] = "node=any"};
    const struct fault_where *where = &fault->where;

    switch (where->place) {
    case FAULT_AT_LINK:
        fault_put(writer, "link=%u:%u%s", where->port.sw, where->port.port,
                  direction_text(where->port.direction));
        return;
    case FAULT_AT_NODE_LINK:
        fault_put(writer, "link=n%u", where->link.node);
        if (where->link.link != EMU_FAULT_ANY)
            fault_put(writer, ":%u", where->link.link);
        fault_put(writer, "%s", direction_text(where->link.direction));
        return;
    case FAULT_AT_LEVEL:
        fault_put(writer, "level=%u", where->level);
        return;
    case FAULT_AT_SWITCH:
        fault_put(writer, "switch=%u", where->sw);
        return;
    case FAULT_AT_NODES:
        print_nodes(writer, &where->nodes);
        return;
    case FAULT_AT_NAMED_SWITCH:
        fault_put(writer, "switch=%s", where->name);
        return;
    case FAULT_AT_NAMED_LINK:
        fault_put(writer, "link=%s", where->named.name);
        if (where->named.port != EMU_FAULT_ANY)
            fault_put(writer, ":%u", where->named.port);
        fault_put(writer, "%s", direction_text(where->named.direction));
        return;
    case FAULT_AT_ALL:
        fault_put(writer, "%s", all[fault_domain(fault->kind)]);
        return;
    case FAULT_AT_TOP:
        print_random(writer, "top", &where->random);
        return;
    case FAULT_AT_RANDOM:
        print_random(writer, "random", &where->random);
        return;
    }
}
