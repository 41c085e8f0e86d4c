"""LongCat-Flash: two attentions and a shortcut of experts in each layer, and a head that is one plain layer."""
