// Command site builds the documents as a site with search and versions: one folder for each version below -out, the folder latest, a
// list of versions for the menu, and a page to choose one. A version that is built again is replaced; the others stay. It needs
// mkdocs and its theme material (Debian packages mkdocs and mkdocs-material). The site loads nothing from elsewhere.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
)

func main() {
	root := flag.String("root", ".", "root of the repository")
	out := flag.String("out", "dist/site", "folder of the site")
	version := flag.String("version", "", "version of the documents; anything but vX.Y.Z or vX.Y.Z-PRE goes to the folder "+unreleased)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := build(ctx, *root, *out, *version); err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		stop()
		os.Exit(1)
	}
}
