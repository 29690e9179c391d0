from trace_platform.cli import main

if __name__ == "__main__":
    main()
