/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * layout.js - the positions of the drawn parts of a network. Each level of switches is a row, and
 * the nodes are at the bottom.
 *
 * A *stage* is the set of switches of one level that are above the same set of nodes. A *subtree*
 * is a set of nodes with all stages above this set. It contains the subtrees of its subsets. If
 * parts are too small or too many to be distinguished, a subtree is drawn as a *box*, and a stage
 * as a *bundle*. The user can open and close both. An *item* is anything that is drawn as one: a
 * node, a switch, a bundle or a box. An *edge* is a line between two items.
 *
 * Sizes are in pixels for text of TEXT_PX, and grow with the text.
 */

const TEXT_PX = 14;
const NODE_PX = 12; /* a subtree whose nodes would be narrower is drawn as a box */
const SWITCH_PX = 16; /* a stage whose switches would be narrower is drawn as a bundle */
const LINE_PX = 7; /* a stage with less width for each link below it is drawn as a bundle */
const LEFT_PX = 58; /* left margin, with the names of the rows */
const RIGHT_PX = 24;
const TALL_PX = 250; /* largest distance of two rows */

/* --- subtrees ------------------------------------------------------------------------ */

/*
 * Number the leaves. A *leaf* is a set of nodes that have cables to the same switches. The nodes
 * below a switch are represented by a set of leaves, with one bit for each leaf.
 */
function leavesOf(model) {
  const own = model.switches.map(() => []), byNodes = new Map(), of = [];
  for (const cable of model.cables) if (!cable.toSwitch) own[cable.sw].push(cable.peer);
  own.forEach((nodes, s) => {
    const key = nodes.sort((a, b) => a - b).join();
    if (key && !byNodes.has(key)) byNodes.set(key, byNodes.size);
    of[s] = key ? byNodes.get(key) : -1;
  });
  return { of, count: byNodes.size };
}

/* Return for each switch the set of the leaves below it. */
function setsBelow(model) {
  const leaves = leavesOf(model), up = model.switches.map(() => []);
  const sets = model.switches.map((_, s) => {
    const set = new Uint32Array(Math.ceil(leaves.count / 32) || 1);
    if (leaves.of[s] >= 0) set[leaves.of[s] >> 5] |= 1 << (leaves.of[s] & 31);
    return set;
  });
  for (const { toSwitch, sw, peer } of model.cables) {
    if (!toSwitch) continue;
    if (model.switches[sw].level < model.switches[peer].level) up[sw].push(peer);
    else up[peer].push(sw);
  }
  const byLevel = model.switches.map((_, s) => s)
    .sort((a, b) => model.switches[a].level - model.switches[b].level);
  for (const s of byLevel)
    for (const above of up[s]) sets[s].forEach((word, i) => { sets[above][i] |= word; });
  return sets;
}

const holds = (outer, inner) => inner.every((word, i) => (word & ~outer[i]) === 0);

function sizeOf(set) {
  let ret = 0;
  for (let word of set) for (; word; word &= word - 1) ret++;
  return ret;
}

/* Return the tree of subtrees: one for each distinct set of leaves below a switch. */
function subtreesOf(model) {
  const sets = setsBelow(model), all = new Map();
  const add = (set) => {
    const key = set.join();
    if (!all.has(key)) all.set(key, { set, stages: new Map(), children: [], nodes: [], top: -1 });
    return all.get(key);
  };
  const whole = new Uint32Array(sets[0]?.length || 1);
  for (const set of sets) set.forEach((word, i) => { whole[i] |= word; });
  const root = add(whole);
  model.switches.forEach(({ level }, s) => {
    const tree = sets[s].some((word) => word) ? add(sets[s]) : root;
    if (!tree.stages.has(level)) tree.stages.set(level, []);
    tree.stages.get(level).push(s);
    tree.top = Math.max(tree.top, level);
  });
  placeNodes(model, root, (s) => all.get(sets[s].join()) || root);
  nest(root, [...all.values()]);
  nameTrees(model, root);
  return root;
}

/* Make each subtree a child of the smallest one that contains it. Children are sorted by nodes. */
function nest(root, trees) {
  const sizes = new Map(trees.map((tree) => [tree, sizeOf(tree.set)]));
  trees.sort((a, b) => sizes.get(b) - sizes.get(a));
  for (const tree of trees) {
    if (tree === root) continue;
    let home = root, inner;
    while ((inner = home.children.find((child) => holds(child.set, tree.set)))) home = inner;
    home.children.push(tree);
  }
  const span = (tree) => {
    tree.children.forEach(span);
    const parts = [...tree.children, ...tree.nodes.map((n) => ({ low: n, high: n, count: 1 }))];
    tree.low = Math.min(...parts.map(({ low }) => low));
    tree.high = Math.max(...parts.map(({ high }) => high));
    tree.count = parts.reduce((sum, { count }) => sum + count, 0);
    tree.children.sort((a, b) => a.low - b.low);
  };
  span(root);
}

/* Return a name for a subtree that stays the same when blocks are opened and closed. */
function keyOf(model, { top, low, high, count }) {
  const block = (n) => model.blocks[model.switches.length + n] ?? -1;
  const [from, to] = [block(low), block(high)];
  const all = model.blocks.slice(model.switches.length).filter((one) => one === from).length;
  return `${top}:${from}-${to}${from === to && count < all ? `:${model.nodeNumber(low)}` : ""}`;
}

function nameTrees(model, root) {
  const keys = new Set();
  each(root, (tree) => {
    tree.key = model.blocks ? keyOf(model, tree) : String(keys.size);
    while (keys.has(tree.key)) tree.key += "'";
    keys.add(tree.key);
  });
}

/* Assign each node to the subtree of the switch at its first link. */
function placeNodes(model, root, treeOf) {
  const home = new Array(model.nodeCount).fill(null);
  for (const cable of model.cables)
    if (!cable.toSwitch && !home[cable.peer]) home[cable.peer] = treeOf(cable.sw);
  home.forEach((tree, n) => (tree || root).nodes.push(n));
}

function each(tree, visit) {
  visit(tree);
  tree.children.forEach((child) => each(child, visit));
}

function membersOf(tree) {
  const ret = { switches: [], nodes: [] };
  each(tree, ({ stages, nodes }) => {
    for (const stage of stages.values()) ret.switches.push(...stage);
    ret.nodes.push(...nodes);
  });
  return ret;
}

export class Layout {
  constructor(model) {
    this.model = model;
    this.root = subtreesOf(model);
    this.levels = Math.max(model.shape.levels, ...model.switches.map((sw) => sw.level + 1), 1);
    this.chosen = new Map(); /* by key: the user has opened (true) or closed (false) this part */
    this.items = [];
    this.edges = [];
  }

  /* --- open and folded parts --- */

  isOpen(tree) {
    return tree === this.root || (this.chosen.get(tree.key) ?? this.auto.has(tree.key));
  }

  /* Return the width of a subtree, in columns. A column is the width of a node. */
  columns(tree) {
    if (!this.isOpen(tree))
      return Math.min(Math.max(Math.sqrt(tree.count), 2.5), 7);
    const below = tree.children.reduce((sum, child) => sum + this.columns(child) + 0.35,
      tree.nodes.length);
    let widest = 0;
    for (const [level, stage] of tree.stages)
      if (this.chosen.get(`${tree.key}@${level}`)) widest = Math.max(widest, stage.length * 1.3);
    return Math.max(below, widest, 1.5);
  }

  /* Open the subtrees level by level, from the top level down, as long as the width suffices. */
  openAutomatically(width) {
    const most = width / NODE_PX;
    this.auto = new Set();
    for (let level = this.levels - 1; level >= 0; level--) {
      const tried = new Set(this.auto);
      each(this.root, (tree) => tree.top === level && tried.add(tree.key));
      const before = this.auto;
      this.auto = tried;
      if (this.columns(this.root) > most + 0.35 * this.root.children.length + 1) {
        this.auto = before;
        return;
      }
    }
  }

  /** Open a closed item, or close the part that contains an open one. Returns false if neither. */
  toggle(item) {
    if (item.kind === "box") {
      this.chosen.set(item.tree.key, true);
    } else if (item.kind === "bundle") {
      this.chosen.set(item.key, true);
    } else if (item.kind === "switch" && this.chosen.get(item.bundle)) {
      this.chosen.delete(item.bundle);
    } else {
      const tree = this.homeOf(item);
      if (!tree || tree === this.root) return false;
      this.chosen.set(tree.key, false);
    }
    return true;
  }

  /** Open all subtrees around a block that the fabric has opened or closed, so that it is seen. */
  reveal(block, open) {
    const { blocks, switches } = this.model;
    const nodes = [...Array(this.model.nodeCount).keys()]
      .filter((n) => blocks[switches.length + n] === block);
    const holds = (tree) => (nodes.length ? tree.low <= nodes[0] && nodes.at(-1) <= tree.high
      : [...tree.stages.values()].flat().some((s) => blocks[s] === block) ||
        tree.children.some(holds));
    let tree = this.root, inner;
    while (tree.count > nodes.length && (inner = tree.children.find(holds))) {
      tree = inner;
      this.chosen.set(tree.key, true);
    }
    if (!open && nodes.length) this.chosen.delete(tree.key);
  }

  homeOf(item) {
    let home = null;
    each(this.root, (tree) => {
      if (item.kind === "node" && tree.nodes.includes(item.nodes[0])) home = tree;
      if (item.kind === "switch" && tree.stages.get(item.level)?.includes(item.switches[0]))
        home = tree;
    });
    return home;
  }

  reset() {
    this.chosen.clear();
  }

  /* --- positions --- */

  /* @text: font size of the page, in pixels. */
  place(width, height, text) {
    this.zoom = text / TEXT_PX;
    const rows = this.levels + 1, top = 34 * this.zoom;
    const bottom = (this.model.nodeNames ? 56 : 40) * this.zoom; /* names are below the numbers */
    const left = LEFT_PX * this.zoom, room = width - left - RIGHT_PX * this.zoom;
    this.width = width;
    this.row = Math.min((height - top - bottom) / Math.max(rows - 1, 1), TALL_PX * this.zoom);
    this.top = top + (height - top - bottom - this.row * (rows - 1)) / 2;
    this.openAutomatically(room);
    this.unit = room / this.columns(this.root);
    this.bundled = new Set();
    for (let level = this.levels; level >= 0; level--) {
      if (level < this.levels && !this.bundleCrowded(level)) continue;
      this.items = [];
      this.ofSwitch = new Int32Array(this.model.switches.length).fill(-1);
      this.ofNode = new Int32Array(this.model.nodeCount).fill(-1);
      this.placeTree(this.root, left);
      this.join();
    }
  }

  /*
   * Turn each stage of this level that is too narrow for the links below it into a bundle, unless
   * the user has opened it or its subtree. Returns whether there was such a stage.
   */
  bundleCrowded(level) {
    const lines = new Map(), before = this.bundled.size;
    for (const { high } of this.edges) {
      const { bundle, level: at } = this.items[high];
      if (bundle && at === level) lines.set(bundle, (lines.get(bundle) || 0) + 1);
    }
    for (const item of this.items)
      if (lines.get(item.bundle) * LINE_PX * this.zoom > item.span &&
        !this.chosen.get(item.bundle) && !this.chosen.get(item.tree.key))
        this.bundled.add(item.bundle);
    return this.bundled.size > before;
  }

  y(level) {
    return this.top + this.row * (this.levels - 1 - level);
  }

  add(item) {
    const at = this.items.push(item) - 1;
    item.switches.forEach((s) => { this.ofSwitch[s] = at; });
    item.nodes.forEach((n) => { this.ofNode[n] = at; });
  }

  placeTree(tree, x0) {
    const width = this.columns(tree) * this.unit;
    if (!this.isOpen(tree)) {
      this.placeBox(tree, x0, width);
      return;
    }
    for (const [level, stage] of tree.stages) this.placeStage(tree, level, stage, x0, width);
    this.placeBelow(tree, x0, width);
  }

  placeBelow(tree, x0, width) {
    const parts = [...tree.children.map((child) => ({ child, low: child.low })),
      ...tree.nodes.map((node) => ({ node, low: node }))].sort((a, b) => a.low - b.low);
    const all = parts.reduce((sum, { child }) =>
      sum + (child ? this.columns(child) + 0.35 : 1), 0) * this.unit;
    let x = x0 + (width - all) / 2;
    for (const { child, node } of parts) {
      if (child) {
        this.placeTree(child, x + 0.175 * this.unit);
        x += (this.columns(child) + 0.35) * this.unit;
      } else {
        this.placeNode(node, x + this.unit / 2);
        x += this.unit;
      }
    }
  }

  placeNode(node, x) {
    const size = Math.min(Math.max(this.unit * 0.62, 5), 20 * this.zoom);
    this.add({ kind: "node", id: `node ${node}`, level: -1, x, y: this.y(-1), w: size, h: size,
      switches: [], nodes: [node] });
  }

  placeStage(tree, level, stage, x0, width) {
    const key = `${tree.key}@${level}`, y = this.y(level), { zoom } = this;
    const step = width / stage.length;
    if (stage.length > 1 && !this.chosen.get(key) &&
      (step < SWITCH_PX * zoom || this.bundled.has(key))) {
      this.add({ kind: "bundle", id: `bundle ${key}`, key, level, tree, span: width,
        x: x0 + width / 2, y, w: Math.min(width * 0.9, Math.max(420, 0.6 * width)),
        h: Math.min(this.row * 0.34, 34 * zoom), switches: stage, nodes: [] });
      return;
    }
    stage.forEach((s, i) => this.add({ kind: "switch", id: `switch ${s}`, level, bundle: key, tree,
      span: width, room: step, x: x0 + step * (i + 0.5), y,
      w: Math.min(Math.max(step * 0.62, 10), 46 * zoom),
      h: Math.min(Math.max(this.row * 0.26, 16), 30 * zoom), switches: [s], nodes: [] }));
  }

  placeBox(tree, x0, width) {
    const from = this.y(Math.max(tree.top, 0)) - 16 * this.zoom;
    const to = this.y(-1) + 14 * this.zoom;
    this.add({ kind: "box", id: `subtree ${tree.key}`, level: tree.top, tree, x: x0 + width / 2,
      y: (from + to) / 2, w: Math.max(width - 6, 8), h: to - from, ...membersOf(tree) });
  }

  /* --- edges --- */

  /* Join all cables between two items into one edge, which leads from the lower to the higher. */
  join() {
    const edges = new Map();
    this.edgeOf = new Int32Array(this.model.cables.length).fill(-1);
    this.model.cables.forEach((cable, c) => {
      const near = this.ofSwitch[cable.sw];
      const far = cable.toSwitch ? this.ofSwitch[cable.peer] : this.ofNode[cable.peer];
      if (near === far || near < 0 || far < 0) return;
      const farLevel = cable.toSwitch ? this.model.switches[cable.peer].level : -1;
      const farIsLow = farLevel < this.model.switches[cable.sw].level;
      const [low, high] = farIsLow ? [far, near] : [near, far];
      const key = `${this.items[low].id}|${this.items[high].id}`; /* does not depend on positions */
      if (!edges.has(key))
        edges.set(key, { id: `edge ${key}`, low, high, cables: [], up: [], down: [],
          level: Math.min(farLevel, this.model.switches[cable.sw].level) + 1 });
      const edge = edges.get(key);
      edge.cables.push(c);
      edge.up.push(farIsLow ? 2 * c : 2 * c + 1);
      edge.down.push(farIsLow ? 2 * c + 1 : 2 * c);
    });
    this.edges = [...edges.values()];
    this.edges.forEach((edge, i) => {
      edge.cables.forEach((c) => { this.edgeOf[c] = i; });
      Object.assign(edge, this.endsOf(edge));
    });
  }

  endsOf(edge) {
    const low = this.items[edge.low], high = this.items[edge.high];
    const across = (2 * high.x) / this.width - 1; /* position in the whole picture, -1 to 1 */
    const within = (2 * (low.x - high.x)) / high.span; /* position in the higher item's subtree */
    return { x0: this.endAt(low, across), y0: low.y - low.h / 2,
      x1: this.endAt(high, within), y1: high.y + high.h / 2 };
  }

  /* Lines at a bundle are ordered like their far ends, so that they do not cross. */
  endAt(item, share) {
    return item.kind !== "bundle" ? item.x
      : item.x + Math.min(Math.max(share, -1), 1) * (item.w / 2 - 4);
  }

  /* --- hit tests --- */

  itemAt(x, y) {
    return this.items.find((item) => Math.abs(x - item.x) <= Math.max(item.w / 2, 7) + 1 &&
      Math.abs(y - item.y) <= Math.max(item.h / 2, 7) + 1) || null;
  }

  edgeAt(x, y) {
    let best = null, least = 7;
    for (const edge of this.edges) {
      const { x0, y0, x1, y1 } = edge, dx = x1 - x0, dy = y1 - y0;
      const along = ((x - x0) * dx + (y - y0) * dy) / (dx * dx + dy * dy || 1);
      if (along < 0.02 || along > 0.98) continue;
      const off = Math.hypot(x - x0 - along * dx, y - y0 - along * dy);
      if (off < least) [best, least] = [edge, off];
    }
    return best;
  }
}
