//! Class: processes that are built to blind, hang or crash a look (S5, S11, S12).
