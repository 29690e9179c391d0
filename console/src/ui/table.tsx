import {
  flexRender,
  getCoreRowModel,
  getSortedRowModel,
  useReactTable,
  type ColumnDef,
  type RowData,
  type RowSelectionState,
  type SortingState,
} from "@tanstack/react-table";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useRef, useState } from "react";

declare module "@tanstack/react-table" {
  interface ColumnMeta<TData extends RowData, TValue> {
    right?: boolean;
    /** Left out on a phone's width. */
    wide?: boolean;
    grow?: boolean;
  }
}

const ROW = 34;
const VIRTUAL_FROM = 120;

export interface Selecting {
  selected: RowSelectionState;
  onSelect: (next: RowSelectionState) => void;
}

/** Rows under sortable heads. Many rows are drawn only where they are seen. */
export function Table<T>({
  label,
  rows,
  columns,
  rowId,
  selecting,
  onOpen,
}: {
  label: string;
  rows: T[];
  // Each column has its own type of value.
  columns: ColumnDef<T, any>[];
  rowId: (row: T) => string;
  selecting?: Selecting;
  onOpen?: (row: T) => void;
}) {
  const [sorting, setSorting] = useState<SortingState>([]);
  const scroller = useRef<HTMLDivElement>(null);
  const table = useReactTable({
    data: rows,
    columns,
    state: { sorting, rowSelection: selecting?.selected ?? {} },
    onSortingChange: setSorting,
    onRowSelectionChange: (update) => {
      if (!selecting) return;
      selecting.onSelect(typeof update === "function" ? update(selecting.selected) : update);
    },
    getRowId: rowId,
    getCoreRowModel: getCoreRowModel(),
    getSortedRowModel: getSortedRowModel(),
  });
  const all = table.getRowModel().rows;
  const virtual = all.length > VIRTUAL_FROM;
  const virtualizer = useVirtualizer({
    count: all.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW,
    overscan: 12,
    enabled: virtual,
  });
  const seen = virtualizer.getVirtualItems();
  const shown = virtual ? seen.map((item) => all[item.index]!) : all;
  const above = virtual ? (seen[0]?.start ?? 0) : 0;
  const below = virtual ? virtualizer.getTotalSize() - (seen.at(-1)?.end ?? 0) : 0;
  const width = columns.length + (selecting ? 1 : 0);
  return (
    <div
      ref={scroller}
      className={virtual ? "table-scroll tall" : "table-scroll"}
      tabIndex={0}
      role="region"
      aria-label={label}
    >
      <table className="table">
        <thead>
          {table.getHeaderGroups().map((group) => (
            <tr key={group.id}>
              {selecting && (
                <th className="pick">
                  <input
                    type="checkbox"
                    aria-label="Select all"
                    checked={table.getIsAllRowsSelected()}
                    onChange={table.getToggleAllRowsSelectedHandler()}
                  />
                </th>
              )}
              {group.headers.map((head) => {
                const sorted = head.column.getIsSorted();
                return (
                  <th
                    key={head.id}
                    className={classOf(head.column.columnDef.meta)}
                    aria-sort={sorted ? (sorted === "asc" ? "ascending" : "descending") : undefined}
                  >
                    {head.column.getCanSort() ? (
                      <button type="button" onClick={head.column.getToggleSortingHandler()}>
                        {flexRender(head.column.columnDef.header, head.getContext())}
                        <span aria-hidden="true">
                          {sorted === "asc" ? " ↑" : sorted === "desc" ? " ↓" : ""}
                        </span>
                      </button>
                    ) : (
                      flexRender(head.column.columnDef.header, head.getContext())
                    )}
                  </th>
                );
              })}
            </tr>
          ))}
        </thead>
        <tbody>
          {above > 0 && <Space height={above} width={width} />}
          {shown.map((row) => (
            <tr
              key={row.id}
              className={onOpen ? "opens" : undefined}
              onClick={(event) => {
                const target = event.target as HTMLElement;
                if (!target.closest("a,button,input")) onOpen?.(row.original);
              }}
            >
              {selecting && (
                <td className="pick">
                  <input
                    type="checkbox"
                    aria-label={`Select ${row.id}`}
                    checked={row.getIsSelected()}
                    onChange={row.getToggleSelectedHandler()}
                  />
                </td>
              )}
              {row.getVisibleCells().map((cell) => (
                <td key={cell.id} className={classOf(cell.column.columnDef.meta)}>
                  {flexRender(cell.column.columnDef.cell, cell.getContext())}
                </td>
              ))}
            </tr>
          ))}
          {below > 0 && <Space height={below} width={width} />}
        </tbody>
      </table>
    </div>
  );
}

function Space({ height, width }: { height: number; width: number }) {
  return (
    <tr aria-hidden="true">
      <td colSpan={width} style={{ height, padding: 0, border: 0 }} />
    </tr>
  );
}

function classOf(meta: { right?: boolean; wide?: boolean; grow?: boolean } | undefined): string {
  return [meta?.right && "right", meta?.wide && "only-wide", meta?.grow && "grow"]
    .filter(Boolean)
    .join(" ");
}
