/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * colours.js - colours of loads and states, for light and dark.
 *
 * The scales are viridis (dark) and mako (light). Their lightness grows evenly, so that they can be
 * read without distinguishing hues. Waits for a credit are vermilion and also dashed.
 */

import { short } from "./words.js";

const SCALES = {
  dark: ["#33405a", "#3b528b", "#2c728e", "#21918c", "#28ae80", "#5ec962", "#addc30", "#fde725"],
  light: ["#c3ccd8", "#8fd3b6", "#49c1ad", "#35a1ab", "#347fa4", "#395d9c", "#40407a", "#2a1a3f"],
};

export const THEMES = {
  dark: {
    ground: "#0d1420", row: "#121b2a", rowText: "#71809b", text: "#dfe7f3", faint: "#8b99b1",
    body: "#182335", edge: "#5b6a84", select: "#ffffff", pulse: "#ffffff",
    stall: "#ff7043", down: "#ff5c8a", testing: "#f2b134", out: "#c792ea", wait: "#f2b134",
    combine: "#ffd54a", idle: "#2a374d", scale: SCALES.dark,
  },
  light: {
    ground: "#fbfcfe", row: "#f1f4f9", rowText: "#64728a", text: "#17202e", faint: "#5b687e",
    body: "#ffffff", edge: "#8b98ad", select: "#0b1220", pulse: "#10233f",
    stall: "#d9480f", down: "#c2255c", testing: "#a86400", out: "#7a3fb5", wait: "#a86400",
    combine: "#b88600", idle: "#d7dee8", scale: SCALES.light,
  },
};

const rgb = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));

/** Return the colour of a scale at @share, from 0 to 1. */
export function scaled(scale, share) {
  const at = Math.min(Math.max(share, 0), 1) * (scale.length - 1);
  const low = Math.min(Math.floor(at), scale.length - 2);
  const [from, to] = [rgb(scale[low]), rgb(scale[low + 1])];
  const mixed = from.map((part, i) => Math.round(part + (to[i] - part) * (at - low)));
  return `rgb(${mixed.join(",")})`;
}

/*
 * The scale of loads does not change while a fabric runs, so that a colour always means the same
 * load. The scale is linear up to the rate of a link. On clock raw, where links have no limit, it
 * is logarithmic from RAW_LEAST to RAW_MOST segments per second.
 */
const RAW_LEAST = 100;
const RAW_MOST = 1e7;
const RAW_TICKS = ["100", "1 k", "10 k", "100 k", "1 M", "10 M"];
const PARTS = 4; /* number of intervals between the labels of the linear scale */

/** Return the position of a link's rate on the scale, from 0 to 1. @end: Model.scaleEnd. */
export function shareOf(rate, end) {
  if (rate <= 0) return 0;
  const share = end ? rate / end : Math.log(rate / RAW_LEAST) / Math.log(RAW_MOST / RAW_LEAST);
  return Math.min(Math.max(share, 0), 1);
}

/** Return the labels of the scale, from low to high. */
export function ticksOf(model) {
  if (!model.scaleEnd) return RAW_TICKS;
  return Array.from({ length: PARTS + 1 }, (_, i) => (model.capacity ? `${(100 / PARTS) * i} %`
    : short((model.scaleEnd / PARTS) * i)));
}

/** Return the colour of one direction of a link that has traffic. */
export function loadColour(theme, share) {
  return scaled(theme.scale, 0.12 + 0.88 * share);
}
