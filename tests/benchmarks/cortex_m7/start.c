/* Start of a Cortex-M7: the vector table, and the floating point unit. */
extern void _start(void);
extern unsigned long stack_top;
void reset(void);
void reset(void)
{
    *(volatile unsigned long *)0xE000ED88UL |= 0xFUL << 20; /* coprocessors 10 and 11 */
    __asm__ volatile("dsb\n\tisb");
    _start();
}
__attribute__((section(".vectors"), used)) static void (*const vectors[2])(void) = {(void (*)(void)) & stack_top, reset};
